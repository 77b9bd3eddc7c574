"""Generate tradewind/v1 from proto/, and check the wire contract.

Works offline with the development dependencies alone: `google/rpc/status.proto` comes from the
installed googleapis-common-protos, and buf reads an image made by protoc instead of resolving
imports itself.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from google.rpc import status_pb2

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
PACKAGE = Path("tradewind/v1")
BASELINE = PROTO / "baseline.binpb"
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


class StepError(Exception):
    """A step could not be done; the text says what to do."""


def tool(name: str) -> Path:
    """Path of a program of the development dependencies. Raises StepError if it is missing."""
    # Beside the interpreter: the virtual environment need not be activated.
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise StepError(
            f"{path} is missing: install the development dependencies, as `make check` does."
        )
    return path


def protoc(*options: str, files: list[str]) -> None:
    """Run protoc over files of proto/. Raises StepError with what protoc said."""
    well_known = resources.files("grpc_tools") / "_proto"
    googleapis = Path(status_pb2.__file__).parents[2]
    includes = [f"-I{PROTO}", f"-I{well_known}", f"-I{googleapis}"]
    command = [sys.executable, "-m", "grpc_tools.protoc", *includes, *options, *files]
    done = subprocess.run(command, cwd=ROOT, check=False, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise StepError(f"protoc refused proto/; correct it:\n{done.stderr.rstrip()}")


def sources() -> list[str]:
    """Every .proto file of the package, as protoc names it."""
    return sorted(path.relative_to(PROTO).as_posix() for path in (PROTO / PACKAGE).glob("*.proto"))


def generate(target: Path) -> None:
    """Write the generated modules and their type stubs below target."""
    files = sources()
    protoc(f"--python_out={target}", f"--pyi_out={target}", files=files)
    # Only files with a service: the plugins would write empty modules for the others.
    services = [name for name in files if "\nservice " in (PROTO / name).read_text("utf-8")]
    protoc(
        f"--grpc_python_out={target}",
        f"--plugin=protoc-gen-mypy_grpc={tool('protoc-gen-mypy_grpc')}",
        f"--mypy_grpc_out=quiet:{target}",  # protoc's own plugin leaves the services untyped
        files=services,
    )


def contents(root: Path) -> dict[str, str]:
    """Every generated file below root, by name."""
    paths = [path for pattern in GENERATED for path in (root / PACKAGE).glob(pattern)]
    return {path.name: path.read_text("utf-8") for path in paths}


def write_image(target: Path) -> None:
    """Write the contract, with comments and imports, as one file that buf reads."""
    options = ("--include_imports", "--include_source_info", f"--descriptor_set_out={target}")
    protoc(*options, files=sources())


def buf(*arguments: str | Path) -> int:
    """Run buf and return its exit code."""
    return subprocess.run([tool("buf"), *arguments], cwd=ROOT, check=False).returncode


def gen() -> int:
    """Replace the generated code in tradewind/v1."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = contents(Path(scratch))
    for stale in contents(ROOT).keys() - fresh.keys():
        (ROOT / PACKAGE / stale).unlink()
    for name, text in fresh.items():
        (ROOT / PACKAGE / name).write_text(text, "utf-8")
    return 0


def check() -> int:
    """Fail if the generated code is not what proto/ generates."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh, present = contents(Path(scratch)), contents(ROOT)
    names = fresh.keys() | present.keys()
    differing = sorted(name for name in names if fresh.get(name) != present.get(name))
    if differing:
        print(
            f"{PACKAGE} is not what proto/ generates ({', '.join(differing)}): "
            "run `make gen` and commit the result.",
            file=sys.stderr,
        )
    return 1 if differing else 0


def lint() -> int:
    """Check names, comments and layout of proto/ by the rules of buf.yaml."""
    with tempfile.TemporaryDirectory() as scratch:
        image = Path(scratch) / "image.binpb"
        write_image(image)
        # --path: the imported google files are in the image, their style is not ours.
        linted = buf("lint", image, "--config", "buf.yaml", "--path", "tradewind")
    return buf("format", "proto", "--diff", "--exit-code") or linted


def breaking() -> int:
    """Fail if a client of the baseline, or a stored record, could not be read any more."""
    if not BASELINE.exists():
        raise StepError(f"{BASELINE} is missing: restore it from version control.")
    with tempfile.TemporaryDirectory() as scratch:
        image = Path(scratch) / "image.binpb"
        write_image(image)
        against = ("--against", BASELINE, "--config", "buf.yaml", "--path", "tradewind")
        return buf("breaking", image, *against)


def baseline() -> int:
    """Make the present contract the one that later changes must stay compatible with."""
    protoc("--include_imports", f"--descriptor_set_out={BASELINE}", files=sources())
    return 0


COMMANDS: dict[str, Callable[[], int]] = {
    "gen": gen,
    "check": check,
    "lint": lint,
    "breaking": breaking,
    "baseline": baseline,
}


def main() -> int:
    """Run one command. Returns 0 if all is well, 1 if a check failed or a tool is missing."""
    parser = argparse.ArgumentParser(description="Generated code and the wire contract.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.__doc__)
    try:
        return 1 if COMMANDS[parser.parse_args().command]() else 0
    except StepError as failed:
        print(failed, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
