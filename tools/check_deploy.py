"""Hold deploy/ against the schemas of Compose and Kubernetes, without network.

    python tools/check_deploy.py

What the schemas cannot see (command lines, redis.conf, regions.yaml) tests/project tests.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
BASE = DEPLOY / "k8s" / "base"
# Ends of support move; a release the manifests must fit, and the newest with a bundled schema.
KUBERNETES = ("1.30", "1.37")
# Kinds of Kustomize itself and inputs of its generators: not manifests.
NOT_MANIFESTS = {"kustomization.yaml", "regions.yaml"}


def unreadable() -> list[str]:
    """Return a sentence for each file that is not YAML."""
    found: list[str] = []
    for path in sorted([*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")]):
        try:
            list(yaml.safe_load_all(path.read_text()))
        except yaml.YAMLError as error:
            found.append(f"{path.relative_to(ROOT)}: {error}")
    return found


def kustomization_gaps(base: Path) -> list[str]:
    """Return a sentence for each file that the kustomization names in vain or leaves out."""
    plan: dict[str, Any] = yaml.safe_load((base / "kustomization.yaml").read_text())
    named = set(plan["resources"])
    for generator in plan["configMapGenerator"]:
        named.update(generator.get("files", []), generator.get("envs", []))
    present = {path.name for path in base.iterdir() if path.is_file()} - {"kustomization.yaml"}
    return [f"kustomization.yaml names {name}, which is not there" for name in named - present] + [
        f"kustomization.yaml leaves out {name}" for name in present - named
    ]


def commands() -> list[list[str]]:
    """Return the validators to run."""
    tools = Path(sys.executable).parent
    manifests = [str(p) for p in sorted(BASE.glob("*.yaml")) if p.name not in NOT_MANIFESTS]
    compose = [str(tools / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    kubernetes = [str(tools / "kubernetes-validate"), "--strict", "--quiet", "-k"]
    return [
        [*compose, str(DEPLOY / "compose.yaml")],
        *([*kubernetes, version, *manifests] for version in KUBERNETES),
    ]


def main() -> int:
    """Print what is wrong; return 1 if anything is."""
    wrong = unreadable() or kustomization_gaps(BASE)
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    failed = [c for c in commands() if subprocess.run(c, check=False, cwd=ROOT).returncode]
    return 1 if wrong or failed else 0


if __name__ == "__main__":
    sys.exit(main())
