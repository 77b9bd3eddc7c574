import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import redis
import yaml

from tools import check_deploy
from tradewind.local.redis_server import HASH_MAX_LISTPACK_VALUE, find_server
from worker.apps import load_app

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
GIB = 1024**3


def manifests() -> list[dict[str, Any]]:
    files = sorted((DEPLOY / "k8s" / "base").glob("*.yaml"))
    return [d for f in files for d in yaml.safe_load_all(f.read_text()) if "kind" in d]


@functools.cache
def tradewind(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line of this tree."""
    script = "from tradewind.cli.main import main; main()"
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def pod_specs() -> dict[str, dict[str, Any]]:
    return {
        m["metadata"]["name"]: m["spec"]["template"]["spec"]
        for m in manifests()
        if m["kind"] == "Deployment"
    }


def command_lines() -> dict[str, list[str]]:
    """Every command line that starts the image, by where it stands."""
    lines = {
        f"compose: {name}": service["command"]
        for name, service in COMPOSE["services"].items()
        if service["image"].startswith("tradewind")
    }
    for name, spec in pod_specs().items():
        lines[f"k8s: {name}"] = spec["containers"][0]["args"]
    return lines


@pytest.mark.parametrize("line", command_lines().values(), ids=command_lines())
def test_the_program_knows_each_option_it_is_given(line: list[str]) -> None:
    command, *options = line
    help_text = tradewind(command, "--help").stdout
    unknown = [o for o in options if not re.search(rf"{o.split('=', 1)[0]}\b", help_text)]
    assert not unknown, help_text


@pytest.mark.parametrize("path", ["deploy/config/regions.yaml", "deploy/k8s/base/regions.yaml"])
def test_the_program_accepts_each_regions_file(path: str) -> None:
    done = tradewind("policy", "check", str(ROOT / path))
    assert done.returncode == 0, done.stderr


def test_a_worker_can_load_the_app_it_is_deployed_with() -> None:
    app = load_app(f"{DEPLOY / 'k8s' / 'base' / 'app.py'}:app")
    assert set(app.handlers) == {"hello"}


@pytest.mark.parametrize(
    ("compose_part", "expected"),
    [("redis", "redis-{}"), ("router", "router-{}"), ("worker", "worker-{}")],
)
def test_compose_serves_every_region_of_its_file(compose_part: str, expected: str) -> None:
    regions = yaml.safe_load((DEPLOY / "config/regions.yaml").read_text())["regions"]
    services = {n for n in COMPOSE["services"] if n.startswith(compose_part)}
    assert services == {expected.format(region) for region in regions}


def test_prometheus_scrapes_every_router_and_worker_of_compose() -> None:
    jobs = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    targets = {t for job in jobs for c in job["static_configs"] for t in c["targets"]}
    expected = {n for n in COMPOSE["services"] if n.startswith(("router-", "worker-"))}
    assert targets == {f"{name}:8070" for name in expected}


def test_compose_publishes_ports_on_loopback_only() -> None:
    ports = [p for s in COMPOSE["services"].values() for p in s.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("spec", pod_specs().values(), ids=pod_specs())
def test_pods_run_locked_down(spec: dict[str, Any]) -> None:
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert container["resources"]["limits"]["memory"]


def test_a_file_the_kustomization_does_not_name_is_noticed(tmp_path: Path) -> None:
    plan = "resources: [gone.yaml]\nconfigMapGenerator: []\n"
    (tmp_path / "kustomization.yaml").write_text(plan)
    (tmp_path / "forgotten.yaml").touch()
    assert check_deploy.kustomization_gaps(tmp_path) == [
        "kustomization.yaml names gone.yaml, which is not there",
        "kustomization.yaml leaves out forgotten.yaml",
    ]


@pytest.fixture
def server_on_redis_conf(tmp_path: Path) -> Iterator[redis.Redis]:
    """Start a redis-server on deploy/redis.conf as it is, but for where it listens and writes."""
    path = tmp_path / "redis.sock"
    if len(str(path)) > 100:  # the kernel's limit for socket names is 108
        pytest.fail(f"the temporary directory is too deep for a socket: {path}")
    command = [str(find_server().path), str(DEPLOY / "redis.conf"), "--port", "0"]
    command += ["--unixsocket", str(path), "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"LC_ALL": "C"}) as child:
        assert child.stdout is not None
        try:
            for line in child.stdout:
                if "ready to accept connections" in line.lower():
                    break
            else:
                pytest.fail("redis-server refused deploy/redis.conf")
            with redis.Redis(unix_socket_path=str(path), decode_responses=True) as client:
                yield client
        finally:
            child.terminate()


def setting(server: redis.Redis, name: str) -> str:
    # redis-py leaves the type of its **kwargs open.
    answer = server.config_get(name)  # pyright: ignore[reportUnknownMemberType]
    return cast("dict[str, str]", answer)[name]


REDIS_SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": "",
    "maxmemory-policy": "noeviction",
    "hash-max-listpack-value": str(HASH_MAX_LISTPACK_VALUE),
}


def test_a_real_server_runs_on_redis_conf(server_on_redis_conf: redis.Redis) -> None:
    got = {name: setting(server_on_redis_conf, name) for name in REDIS_SETTINGS}
    assert got == REDIS_SETTINGS


def test_redis_gets_at_most_three_quarters_of_its_container(
    server_on_redis_conf: redis.Redis,
) -> None:
    assert COMPOSE["x-redis"]["mem_limit"] == "1g"
    assert int(setting(server_on_redis_conf, "maxmemory")) <= 0.75 * GIB
