import asyncio
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from router.server import check_free
from tests.redis_keys import connected
from tests.rpc.running import Running, spec
from tests.sharded import written
from tradewind.errors import SetupError
from tradewind.fleet import Fleet
from tradewind.local.scratch import RedisProcess
from tradewind.v1 import router_pb2, router_pb2_grpc

ROOT = Path(__file__).parents[2]
SERVING = health_pb2.HealthCheckResponse.SERVING
OURS = {"tradewind.v1.RouterService", "tradewind.v1.AdminService"}


async def health(serving: Running, service: str) -> int:
    stub: Any = health_pb2_grpc.HealthStub(serving.channel)
    return (await stub.Check(health_pb2.HealthCheckRequest(service=service))).status


@pytest.mark.parametrize("service", ["", *sorted(OURS)])
async def test_health_is_told_for_the_server_and_each_service(
    serving: Running, service: str
) -> None:
    assert await health(serving, service) == SERVING


async def test_a_health_check_names_the_routers_region(serving: Running) -> None:
    healthy: Any = health_pb2_grpc.HealthStub(serving.channel)
    checked = healthy.Check(health_pb2.HealthCheckRequest())
    unknown = healthy.Check(health_pb2.HealthCheckRequest(service="nobody"))

    for call in (checked, unknown):
        assert dict(await call.initial_metadata()).get("tradewind-region") == "eu-west"


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_answers_in_both_versions(serving: Running, version: str) -> None:
    channel: Any = serving.channel
    method = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    call = method()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    listed = await call.read()
    await call.write(
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="tradewind.v1.TaskSpec")
    )
    described = await call.read()
    await call.done_writing()

    assert {one.name for one in listed.list_services_response.service} >= OURS
    assert described.file_descriptor_response.file_descriptor_proto


async def test_a_stopped_server_is_not_serving_before_its_port_closes(serving: Running) -> None:
    stub: Any = health_pb2_grpc.HealthStub(serving.channel)
    watching = stub.Watch(health_pb2.HealthCheckRequest())
    assert (await watching.read()).status == SERVING

    stopping = asyncio.create_task(serving.server.stop(asyncio.Event(), grace_s=0.1))

    assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    await stopping


async def test_a_port_in_use_is_one_sentence(serving: Running) -> None:
    with pytest.raises(SetupError, match=r"cannot serve gRPC on 127\.0\.0\.1:\d+ \(Address"):
        check_free("127.0.0.1", serving.server.port)


@pytest.fixture
def config(fleet: Fleet, tmp_path: Path) -> Path:
    lines = ["version: 1", "partitions: 16", "regions:"]
    for name, region in fleet.regions.items():
        redis = written(region.redis)
        lines.append(f"  {name}: {{redis: {redis}, residency: [{region.residency[0]}]}}")
    path = tmp_path / "regions.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def command(config: Path, *options: str) -> list[str]:
    program = [sys.executable, "-m", "router", "--config", str(config)]
    return [*program, "--http", "127.0.0.1:0", *options]


@contextmanager
def process(config: Path, *options: str) -> Generator[tuple["subprocess.Popen[str]", str, str]]:
    """Run a router; yields it, its gRPC address and its HTTP address."""
    argv = command(config, "--region", "eu-west", "--listen", "127.0.0.1:0", *options)
    with subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stdout is not None
            _, grpc_at, http_at = running.stdout.readline().split()
            yield running, grpc_at.removeprefix("grpc="), http_at.removeprefix("http=")
        finally:
            if running.poll() is None:
                running.terminate()
                running.communicate(timeout=20)


def submit(address: str) -> router_pb2.SubmitTaskResponse:
    with grpc.insecure_channel(address) as channel:
        stub: Any = router_pb2_grpc.RouterServiceStub(channel)
        request = router_pb2.SubmitTaskRequest(spec=spec(pin_region="eu-west"))
        return stub.SubmitTask(request, timeout=20, wait_for_ready=True)


def fetch(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=20) as answer:
        return answer.read().decode()


def test_a_router_serves_and_leaves_on_sigterm(config: Path) -> None:
    with process(config) as (router, address, http):
        assert submit(address).region == "eu-west"
        assert fetch(http, "/healthz") == "alive\n"
        assert fetch(http, "/readyz") == "ready\n"
        assert 'tradewind_tasks_submitted_total{outcome="accepted"' in fetch(http, "/metrics")
        router.send_signal(signal.SIGTERM)
        _, errors = router.communicate(timeout=20)

    assert router.returncode == 0
    assert "Traceback" not in errors


def test_several_processes_share_one_port_and_one_face(config: Path) -> None:
    with process(config, "--processes", "2") as (router, address, http):
        for _ in range(20):
            assert submit(address).region == "eu-west"
        assert fetch(http, "/readyz") == "ready\n"
        metrics = fetch(http, "/metrics")
        assert (
            'tradewind_tasks_submitted_total{outcome="accepted",queue="default",region="eu-west"}'
            " 20.0" in metrics
        )
        router.send_signal(signal.SIGTERM)
        _, errors = router.communicate(timeout=20)

    assert router.returncode == 0
    assert "Traceback" not in errors


def children(router: "subprocess.Popen[str]") -> list[int]:
    return [
        int(pid)
        for pid in Path(f"/proc/{router.pid}/task/{router.pid}/children").read_text().split()
    ]


def until(holds: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(0.05)


def test_a_router_process_that_dies_while_the_file_is_broken_comes_back_by_the_last_good_one(
    config: Path,
) -> None:
    with process(config, "--processes", "2") as (router, address, http):
        submit(address)
        until(lambda: len(children(router)) == 2)
        healthy, killed = children(router)
        content = config.read_text()
        config.write_text("version: [")
        os.kill(killed, signal.SIGKILL)

        until(lambda: len(set(children(router)) - {killed}) == 2)
        assert healthy in children(router)
        until(lambda: "tradewind_policy_reload_failed 1.0" in fetch(http, "/metrics"))
        assert submit(address).region == "eu-west"
        assert "tradewind_policy_info{version=" in fetch(http, "/metrics")

        config.write_text(content)
        router.send_signal(signal.SIGHUP)  # to each of them, and it ends none
        until(lambda: "tradewind_policy_reload_failed 0.0" in fetch(http, "/metrics"))
        assert len(set(children(router)) - {killed}) == 2
        assert submit(address).region == "eu-west"
        router.send_signal(signal.SIGTERM)
        router.communicate(timeout=20)
    assert router.returncode == 0


def test_killed_router_processes_leave_no_directory_behind(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with process(config, "--processes", "2") as (router, address, _):
        submit(address)
        assert len(list(tmp_path.glob("tradewind-metrics-*"))) == 1
        router.kill()
        router.communicate(timeout=20)
    until(lambda: not list(tmp_path.glob("tradewind-metrics-*")))


@pytest.mark.standalone
def test_routers_whose_parent_is_killed_answer_what_is_under_way(
    config: Path, redis_servers: list[RedisProcess]
) -> None:
    store = connected(redis_servers[0].port)
    with process(config, "--processes", "2") as (router, address, _):
        submit(address)
        with ThreadPoolExecutor() as beside:
            store.client_pause(1_500, all=False)
            answer = beside.submit(submit, address)
            until(lambda: store.info("clients")["blocked_clients"] > 0)
            router.kill()
            assert answer.result().region == "eu-west"
        router.communicate(timeout=20)


def run(config: Path, *options: str) -> tuple[int, str]:
    done = subprocess.run(
        command(config, *options),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=os.environ | {"COLUMNS": "200"},
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_port_in_use_ends_the_start(serving: Running, config: Path, processes: str) -> None:
    options = ("--region", "eu-west", "--listen", serving.server.address)
    code, errors = await asyncio.to_thread(run, config, *options, "--processes", processes)

    assert code == 1
    assert errors.count("\n") == 1
    assert f"cannot serve gRPC on {serving.server.address}" in errors


async def test_an_http_port_in_use_ends_the_start(serving: Running, config: Path) -> None:
    options = ("--region", "eu-west", "--listen", "127.0.0.1:0", "--http", serving.server.address)
    code, errors = await asyncio.to_thread(run, config, *options)

    assert code == 1
    assert errors.count("\n") == 1
    assert f"cannot serve HTTP on {serving.server.address}" in errors


async def test_a_router_that_stops_is_not_ready(serving: Running) -> None:
    await serving.server.stop(asyncio.Event())

    assert serving.gateway.ready() == (False, "shutting down")


WRONG = {
    "an unknown region": (("--region", "mars"), "has no region mars; it has eu-west"),
    "no region": ((), "--region"),
    "an address that is none": (
        ("--region", "eu-west", "--listen", "nonsense"),
        "'nonsense' is no address",
    ),
    "an open door": (("--region", "eu-west", "--listen", "0.0.0.0:0"), "--insecure-bind"),
    "no processes": (("--region", "eu-west", "--processes", "0"), "from 1 to"),
}


@pytest.mark.parametrize(("options", "sentence"), WRONG.values(), ids=WRONG)
def test_wrong_usage_is_a_sentence(config: Path, options: tuple[str, ...], sentence: str) -> None:
    code, errors = run(config, *options)

    assert code == 2
    assert sentence in errors
    assert "Traceback" not in errors


def test_a_broken_file_is_a_sentence_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "regions.yaml"
    path.write_text("version: 1\nregions:\n  eu: {redys: 'redis://127.0.0.1:1'}\n")

    code, errors = run(path, "--region", "eu")

    assert code == 2
    assert f"{path}:3:" in errors
    assert errors.count("\n") == 1


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    code, errors = run(tmp_path / "nothing.yaml", "--region", "eu")

    assert code == 2
    assert "nothing.yaml" in errors
