import asyncio
import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from tests.harness.patience import until
from tradewind.fleet import Fleet, RedisTarget, Region
from tradewind.local import prepare
from tradewind.local.embedded import EmbeddedFleet, answers_ready
from tradewind.local.errors import LocalSetupError
from tradewind.local.freeports import LOOPBACK, free_ports, is_free
from tradewind.local.plan import EmbeddedOptions, Layout
from tradewind.local.prepare import choose_layout, locked
from tradewind.local.redis_server import ask
from tradewind.local.scratch import redis_process
from tradewind.regions import load

US, EU = "us-east", "eu-west"

# Stands for router and worker: tells what it was given, and is ready, or is not.
SERVICE = """
import json, os, pathlib, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
place = pathlib.Path(os.environ["STAND_IN"])
name = pathlib.Path(sys.argv[0]).stem + "-" + given["--region"]
if (place / f"{name}.breaks").exists():
    sys.exit("no module named webhooks")
given["redis at"] = json.loads(os.environ["TRADEWIND_REDIS_AT"])
(place / f"{name}.json").write_text(json.dumps(given))

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()

host, port = given["--http"].split(":")
HTTPServer((host, int(port)), Handler).serve_forever()
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "stand-in"
    place.mkdir()
    for name in ("router", "worker"):
        (place / f"{name}.py").write_text(SERVICE)
    monkeypatch.setenv("STAND_IN", str(place))
    monkeypatch.setenv("PYTHONPATH", str(place))
    return place


def fleet(us_port: int = 6401, eu_port: int = 6402) -> Fleet:
    ports = {US: us_port, EU: eu_port}
    return Fleet(
        regions={
            name: Region(name, RedisTarget("standalone", (f"{LOOPBACK}:{port}",)))
            for name, port in ports.items()
        },
        rtt_ms={(US, EU): 40.0, (EU, US): 40.0},
    )


def taken_by(layout: Layout) -> set[int]:
    """Every port of it. Fails if one was given twice."""
    given = [number for ports in layout.regions.values() for number in dataclasses.astuple(ports)]
    given += [port for store in layout.stores.values() for port in sorted(store.ports)]
    given += layout.wan.values()
    assert len(set(given)) == len(given)
    return set(given)


def options(tmp_path: Path, **changes: object) -> EmbeddedOptions:
    config = tmp_path / "regions.yaml"
    config.write_text(
        textwrap.dedent("""\
            version: 1
            regions:   # two of them
              us-east: {redis: redis://127.0.0.1:6401, residency: [us]}
              eu-west:
                redis: redis://127.0.0.1:6402   # near
                residency: [eu]
            rtt: {us-east: {eu-west: 40ms}}
        """)
    )
    chosen = EmbeddedOptions(
        config=config,
        app="./app.py:app",
        data_dir=tmp_path / "data",
        ephemeral_ports=True,
        worker_options=("--concurrency", "3"),
    )
    return dataclasses.replace(chosen, **changes)


@pytest.fixture
def taken_port() -> Generator[int, None, None]:
    with socket.create_server((LOOPBACK, 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "_PORT_PATIENCE_S", 0.0)


async def test_a_fleet_serves_and_leaves_nothing_behind(tmp_path: Path, stand_in: Path) -> None:
    region_options = {EU: ("--concurrency", "5")}
    running = EmbeddedFleet(fleet(), options(tmp_path, wan=True, region_options=region_options))
    assert running.endpoints == {}
    await running.start()
    assert list(running.endpoints) == [US, EU]
    for region, endpoint in running.endpoints.items():
        assert await answers_ready(int(endpoint.http.rpartition(":")[2]))
        assert "+PONG" in ask(int(endpoint.redis_url.rpartition(":")[2]), "PING")
        told = json.loads((stand_in / f"router-{region}.json").read_text())
        assert (told["--listen"], told["--http"]) == (endpoint.grpc, endpoint.http)
        told = json.loads((stand_in / f"worker-{region}.json").read_text())
        slots = "5" if region == EU else "3"
        assert (told["--app"], told["--concurrency"]) == ("./app.py:app", slots)
        assert told["--grace"] == "15"
        assert told["--http"] == endpoint.worker_http
        # They read the user's own file, and what they are told leads to the right servers.
        assert told["--config"] == str(tmp_path / "regions.yaml")
        for other, target in told["redis at"].items():
            own = running.endpoints[other].redis_url
            [node] = target["nodes"]
            assert f"redis://{node}" == own  # it goes by its own address, wherever it is called
            assert (node in target["through"]) == (other != region)
            node = target["through"].get(node, node)
            mark = f"{region}-{other}"
            ask(int(node.rpartition(":")[2]), f"SET {mark} 1")
            assert "$1" in ask(int(own.rpartition(":")[2]), f"GET {mark}")
    pids = [running.supervisor.pid_of(f"{kind}-{US}") for kind in ("redis", "router", "worker")]
    await running.stop()
    await running.stop()
    assert not any(psutil.pid_exists(pid) for pid in pids if pid is not None)
    with locked(tmp_path / "data"):
        pass


@pytest.mark.usefixtures("stand_in")
async def test_ways_break_and_heal_while_a_fleet_runs(tmp_path: Path) -> None:
    running = EmbeddedFleet(fleet(), options(tmp_path, wan=True, wan_home=True))
    await running.start()
    try:
        ways = running.links
        assert set(ways) == {(US, EU), (EU, US), (US, US), (EU, EU)}

        def answering() -> set[tuple[str, str]]:
            found: set[tuple[str, str]] = set()
            for way, link in ways.items():
                with contextlib.suppress(OSError):
                    if "+PONG" in ask(link.listen_port, "PING"):
                        found.add(way)
            return found

        assert await asyncio.to_thread(answering) == set(ways)
        to_eu = {way: ways[way] for way in ((US, EU), (EU, EU))}
        running.set_links(
            {way: dataclasses.replace(link, reach="refuses") for way, link in to_eu.items()}
        )
        assert {link.reach for link in running.links.values()} == {"ok", "refuses"}

        async def is_cut_off() -> bool:
            return await asyncio.to_thread(answering) == {(EU, US), (US, US)}

        async def is_well() -> bool:
            return await asyncio.to_thread(answering) == set(ways)

        await until(is_cut_off, "eu-west is cut off")
        running.set_links(to_eu)
        await until(is_well, "eu-west is back")
        with pytest.raises(KeyError):
            running.set_links({(US, "mars"): ways[US, EU]})
    finally:
        await running.stop()


@pytest.mark.usefixtures("stand_in")
async def test_changes_of_the_users_file_are_told_and_bad_ones_too(tmp_path: Path) -> None:
    chosen, heard = options(tmp_path, wan=True), asyncio.Queue[str]()
    running = EmbeddedFleet(fleet(), chosen)
    await running.start()
    following = asyncio.create_task(running.follow(heard.put_nowait))
    text = chosen.config.read_text()
    try:
        chosen.config.write_text(text + "rules: [{name: nigh, residency: [eu]}]\n")
        running.reload()  # by SIGHUP; without it the change is seen in 2 to 4 s
        version = load(chosen.config).version  # that of `policy check`
        assert f"policy {version} is in force" in await heard.get()

        for bad in ("regions: [", text + "partitions: 128\n"):
            chosen.config.write_text(bad)
            running.reload()
            assert "the old policy stays in force" in await heard.get()

        more = text.replace("rtt:", "  ap-south: {redis: redis://127.0.0.1:6403}\nrtt:")
        chosen.config.write_text(more)
        running.reload()
        assert "to run ap-south here, too, start anew" in await heard.get()
        pids = [running.supervisor.pid_of(f"{kind}-{US}") for kind in ("redis", "router", "worker")]
        assert all(pid is not None and psutil.pid_exists(pid) for pid in pids)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await running.stop()


@pytest.mark.usefixtures("stand_in")
async def test_a_killed_redis_comes_back_with_its_data(tmp_path: Path) -> None:
    restarted = asyncio.Event()
    running = EmbeddedFleet(
        fleet(), options(tmp_path, app=None), on_restart=lambda _name, _pid: restarted.set()
    )
    await running.start()
    assert running.endpoints[US].worker_http == ""
    port = int(running.endpoints[US].redis_url.rpartition(":")[2])
    # With everysec a write may wait up to 2 s behind an fsync before it reaches the file.
    ask(port, "CONFIG SET appendfsync always", "SET kept 1")
    running.supervisor.kill(f"redis-{US}")
    await restarted.wait()
    await running.supervisor.revive(f"redis-{US}")
    assert "$1" in ask(port, "GET kept")
    await running.stop()


@pytest.mark.usefixtures("stand_in")
async def test_a_region_is_out_for_as_long_as_a_file_says_so(tmp_path: Path) -> None:
    heard = asyncio.Queue[str]()
    chosen = options(tmp_path, app=None)
    (tmp_path / "data" / "down").mkdir(parents=True)
    (tmp_path / "data" / "down" / EU).touch()  # of a run before: cleared
    running = EmbeddedFleet(fleet(), chosen)
    await running.start()
    following = asyncio.create_task(running.follow(heard.put_nowait))
    port = int(running.endpoints[US].redis_url.rpartition(":")[2])
    try:
        ask(port, "CONFIG SET appendfsync always", "SET kept 1")
        (running.outage_dir / US).touch()
        assert (await heard.get()).startswith(f"{US} is out: ")
        await until(lambda: running.supervisor.pid_of(f"redis-{US}") is None, "it has ended")
        (running.outage_dir / "mars").touch()
        assert await heard.get() == f"no region mars runs here; there are {US}, {EU}"
        assert running.supervisor.pid_of(f"redis-{US}") is None  # nobody has started it again
        assert running.supervisor.pid_of(f"redis-{EU}") is not None

        (running.outage_dir / US).unlink()
        assert (await heard.get()).startswith(f"{US} has its redis-server again")
        assert "$1" in ask(port, "GET kept")
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await running.stop()


@pytest.mark.usefixtures("stand_in")
async def test_a_fleet_whose_routers_see_no_workers_names_router_and_logs(tmp_path: Path) -> None:
    running = EmbeddedFleet(fleet(), options(tmp_path))
    assert running.missing == "a redis-server to run and free ports"
    await running.start()
    try:
        with pytest.raises(LocalSetupError) as caught:
            await running.until_served(timeout_s=0.3)
        assert running.missing in str(caught.value)
    finally:
        await running.stop()
    assert f"router-{US} sees no worker in any region yet" in str(caught.value)
    assert str(running.log_dir) in str(caught.value)


async def test_a_service_that_ends_at_start_is_one_error_with_its_log(
    tmp_path: Path, stand_in: Path
) -> None:
    (stand_in / f"worker-{EU}.breaks").touch()
    running = EmbeddedFleet(fleet(), options(tmp_path))
    with pytest.raises(LocalSetupError) as caught:
        await running.start()
    assert f"worker-{EU} ended at start (exit status 1)" in str(caught.value)
    assert "no module named webhooks" in str(caught.value)
    assert running.supervisor.pid_of(f"redis-{US}") is None
    with locked(tmp_path / "data"):
        pass


async def test_two_fleets_in_one_directory_are_one_sentence(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "data"),
        pytest.raises(LocalSetupError, match="in use by another `tradewind up`"),
    ):
        await EmbeddedFleet(fleet(), options(tmp_path)).start()


async def test_a_data_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    chosen = options(tmp_path, data_dir=tmp_path / "regions.yaml" / "data")
    with pytest.raises(LocalSetupError, match="Not a directory: choose another directory"):
        await EmbeddedFleet(fleet(), chosen).start()


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys; from tradewind.local.prepare import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(LocalSetupError), locked(tmp_path):
        pass
    holder.kill()
    holder.communicate()
    with locked(tmp_path):
        pass


@pytest.mark.usefixtures("no_patience")
def test_a_taken_redis_port_names_its_region(tmp_path: Path, taken_port: int) -> None:
    chosen = options(tmp_path, ephemeral_ports=False)
    with pytest.raises(LocalSetupError) as caught:
        choose_layout(fleet(free_ports(1)[0], taken_port), chosen)
    assert f"port {taken_port} is taken" in str(caught.value)
    assert f"change region {EU} in {chosen.config}" in str(caught.value)


@pytest.mark.usefixtures("no_patience")
def test_a_redis_that_may_move_gets_another_port_and_the_others_stay(
    tmp_path: Path, taken_port: int
) -> None:
    port, us_redis = free_ports(2)
    chosen = options(tmp_path, ephemeral_ports=False, port=port, redis_may_move=True)
    chosen.data_dir.mkdir()
    layout = choose_layout(fleet(us_redis, taken_port), chosen)
    assert layout.stores[US].ports == {us_redis}
    assert not layout.stores[EU].ports & {taken_port, us_redis}


@pytest.mark.usefixtures("no_patience")
def test_a_redis_does_not_move_from_under_its_own_data(tmp_path: Path) -> None:
    chosen = options(tmp_path, ephemeral_ports=False, port=free_ports(1)[0], redis_may_move=True)
    with redis_process(chosen.data_dir / "regions" / EU) as left_over:
        taken = fleet(free_ports(1)[0], left_over.port)
        with pytest.raises(LocalSetupError, match="still uses"):
            choose_layout(taken, chosen)


@pytest.mark.usefixtures("no_patience")
def test_a_taken_first_port_is_an_error(tmp_path: Path, taken_port: int) -> None:
    chosen = options(tmp_path, ephemeral_ports=False, port=taken_port)
    with pytest.raises(LocalSetupError, match="choose another with --port"):
        choose_layout(fleet(*free_ports(2)), chosen)


def test_the_first_router_gets_the_port_and_nothing_is_given_twice(tmp_path: Path) -> None:
    us_redis, *others = free_ports(20)
    # The second region's Redis sits where the second router would.
    port = next(port for port in others if port + 1 != us_redis and is_free(port + 1))
    chosen = options(tmp_path, ephemeral_ports=False, port=port, wan=True)
    layout = choose_layout(fleet(us_redis, port + 1), chosen)
    assert (layout.regions[US].grpc, layout.stores[US].servers[0].port) == (port, us_redis)
    assert (layout.regions[EU].grpc > port + 1, layout.stores[EU].servers[0].port) == (
        True,
        port + 1,
    )
    assert len(taken_by(layout)) == 4 + 4 + 2


def test_a_port_too_high_for_the_fleet_is_an_error(tmp_path: Path) -> None:
    chosen = options(tmp_path, ephemeral_ports=False, port=65_535)
    with pytest.raises(LocalSetupError, match="start at a lower port"):
        choose_layout(fleet(*free_ports(2)), chosen)


async def test_nobody_and_a_stranger_are_not_ready() -> None:
    port = free_ports(1)[0]
    assert not await answers_ready(port)

    async def stranger(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 503 Service Unavailable\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(stranger, LOOPBACK, port)
    assert not await answers_ready(port)
    server.close()
