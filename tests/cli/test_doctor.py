"""tradewind doctor against real servers: what it finds, its exit codes, and that it only looks."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.conftest import fleet_at
from tests.redis_keys import allow, connected
from tests.scripts.world import a_task, an_id, keys_at
from tradewind.local.freeports import free_ports
from tradewind.local.scratch import RedisProcess, Watched, redis_process
from tradewind.store.region_store import RegionStore

pytestmark = pytest.mark.standalone  # those of a Cluster say so themselves


def a_file(home: Path, *regions: str, more: Sequence[str] = ()) -> Path:
    path = home / "regions.yaml"
    lines = ["version: 1", "partitions: 16", "regions:", *(f"  {each}" for each in regions), *more]
    path.write_text("\n".join(lines) + "\n")
    return path


def at(*ports: int, name: str = "eu-west") -> str:
    nodes = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
    where = f"redis://127.0.0.1:{ports[0]}" if len(ports) == 1 else f"{{cluster: [{nodes}]}}"
    return f"{name}: {{redis: {where}, residency: [eu]}}"


async def used(ports: Sequence[int]) -> None:
    """A router was here, and left a task."""
    fleet = fleet_at("cluster" if len(ports) > 1 else "standalone", ports)
    store = RegionStore(fleet.regions["eu-west"], fleet)
    await store.start()
    for place in range(16):
        await store.enqueue([a_task(an_id(place), queue="mail")], timeout_s=5)
    await store.close()


class Doctor:
    """Runs it, and reads what it says as JSON."""

    def __init__(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        self._run, self._capsys = run, capsys
        self.status = -1

    def __call__(self, config: Path, *arguments: str) -> dict[str, dict[str, str]]:
        """By region, what was found worse than OK: check -> found."""
        self.status = self._run("doctor", "--config", str(config), "--json", *arguments)
        regions = json.loads(self._capsys.readouterr().out)["regions"]
        return {
            region["name"]: {
                each["check"]: each["found"]
                for each in region["findings"]
                if each["severity"] in {"warning", "error"}
            }
            for region in regions
        }


@pytest.fixture
def doctor(run: Run, capsys: pytest.CaptureFixture[str]) -> Doctor:
    return Doctor(run, capsys)


@pytest.fixture
def sound(redis_server: RedisProcess) -> Any:
    raw = connected(redis_server.port)
    raw.config_set("maxmemory", "256mb")
    yield raw
    raw.config_set("maxmemory", "0")
    raw.config_set("maxmemory-policy", "noeviction")


def test_a_sound_region_needs_nothing_and_is_left_as_it_was(
    run: Run, sound: Any, redis_server: RedisProcess, tmp_path: Path, capsys: Any
) -> None:
    config = a_file(tmp_path, at(redis_server.port))
    assert run("doctor", "--config", str(config), "--strict") == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "1 region: nothing to mend." in said.out
    assert "noeviction" in said.out
    assert not said.out.splitlines()[1].rstrip().endswith("at"), "one server: nothing to name"
    assert sound.dbsize() == 0, "it leaves no identity, as routers and workers do"


def test_each_region_is_told_of_with_what_mends_it(
    run: Run, sound: Any, redis_servers: list[RedisProcess], tmp_path: Path, capsys: Any
) -> None:
    sound.config_set("maxmemory-policy", "allkeys-lru")
    second = redis_servers[1].port
    config = a_file(tmp_path, at(redis_servers[0].port), at(second, name="us-east"))
    assert run("doctor", "--config", str(config)) == 1
    said = capsys.readouterr().out
    mend = f"redis-cli -h 127.0.0.1 -p {redis_servers[0].port} CONFIG SET maxmemory-policy"
    assert f"{mend} noeviction" in said
    assert f"redis-cli -h 127.0.0.1 -p {second} CONFIG SET maxmemory " in said
    assert "2 regions: 1 error, 1 warning." in said


def test_only_the_region_that_is_asked_for_is_looked_at(
    doctor: Doctor, redis_server: RedisProcess, tmp_path: Path
) -> None:
    [nowhere] = free_ports(1)
    config = a_file(tmp_path, at(redis_server.port), at(nowhere, name="us-east"))
    assert list(doctor(config, "--region", "eu-west")["eu-west"]) == ["memory"]
    assert doctor.status == 0, "a warning"
    doctor(config, "--region", "eu-west", "--strict")
    assert doctor.status == 1
    assert list(doctor(config)["us-east"]) == ["reachable"]
    assert doctor.status == 3


def test_a_wrong_file_or_region_is_a_sentence_and_exit_code_2(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("doctor", "--config", str(tmp_path / "none.yaml")) == 2
    assert run("doctor", "--config", str(a_file(tmp_path, at(1))), "--region", "mars") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "has no region mars; it has eu-west" in said.err


def test_a_cluster_is_looked_at_node_by_node(
    doctor: Doctor, run: Run, cluster_ports: list[int], tmp_path: Path, capsys: Any
) -> None:
    asyncio.run(used(cluster_ports))
    raw = connected(cluster_ports[1])
    raw.config_set("cluster-require-full-coverage", "yes")
    config = a_file(tmp_path, at(*cluster_ports))
    try:
        found = doctor(config)["eu-west"]
        assert run("doctor", "--config", str(config)) == 0
    finally:
        raw.config_set("cluster-require-full-coverage", "no")
    assert found.keys() == {"nodes", "memory", "coverage"}
    assert found["nodes"] == "3 primaries, no replica"
    said = capsys.readouterr().out
    assert f"-p {cluster_ports[1]} CONFIG SET cluster-require-full-coverage no" in said
    assert "6, 5, 5 on 3 nodes" in said
    assert "tradewind, eu-west" in said


def test_a_key_that_nobody_would_remove_is_found_among_those_that_live(
    doctor: Doctor, redis_server: RedisProcess, sound: Any, tmp_path: Path
) -> None:
    asyncio.run(used([redis_server.port]))
    config = a_file(tmp_path, at(redis_server.port))
    assert doctor(config)["eu-west"] == {}
    keys = keys_at(3)
    sound.rpush(keys.ready("gone", 1), f"{an_id()}:1:1")
    sound.rpush(keys.ready("long", 1), *(f"{an_id()}:1:1" for _ in range(200)))
    sound.zadd(keys.leases, {an_id(): 1})
    sound.set(keys.memory(an_id()), "in 2")
    assert doctor(config)["eu-west"]["keys"].startswith("3 keys without owner")


def test_a_count_that_is_no_number_is_left_to_those_who_mend_it(
    doctor: Doctor, redis_server: RedisProcess, sound: Any, tmp_path: Path
) -> None:
    asyncio.run(used([redis_server.port]))
    sound.hset(keys_at(3).counts, mapping={"P": "many", "d:mail": "1.5"})
    assert doctor(a_file(tmp_path, at(redis_server.port)))["eu-west"] == {}


def test_another_regions_redis_is_told_apart(
    doctor: Doctor, redis_server: RedisProcess, sound: Any, tmp_path: Path
) -> None:
    asyncio.run(used([redis_server.port]))
    config = a_file(tmp_path, at(redis_server.port, name="us-east"))
    assert doctor(config)["us-east"] == {
        "identity": "it says region eu-west; the file says region us-east"
    }
    assert doctor.status == 1
    config.write_text(a_file(tmp_path, at(redis_server.port)).read_text().replace("16", "64", 1))
    told = doctor(config)["eu-west"]["identity"]
    assert told == "it says partitions 16; the file says partitions 64"


@pytest.mark.every_form
def test_behind_sentinels_the_primary_its_replicas_and_they_themselves_are_asked(
    doctor: Doctor,
    watched: Watched,
    sentinel_ports: list[int],
    run: Run,
    tmp_path: Path,
    capsys: Any,
) -> None:
    [nowhere] = free_ports(1)
    nodes = ", ".join(f'"127.0.0.1:{port}"' for port in (*sentinel_ports, nowhere))
    redis = f"{{sentinel: [{nodes}], service: {watched.service}}}"
    config = a_file(tmp_path, f"eu-west: {{redis: {redis}, residency: [eu]}}")
    assert doctor(config)["eu-west"].keys() == {"memory", "min-replicas", "sentinels"}
    assert run("doctor", "--config", str(config)) == 0
    said = capsys.readouterr().out
    assert f"127.0.0.1:{nowhere}" in said
    assert "1 primary, 1 replica" in said


def test_a_command_that_was_renamed_is_named(tmp_path: Path, doctor: Doctor) -> None:
    with redis_process(tmp_path / "redis", ["--rename-command", "EVAL", ""]) as server:
        found = doctor(a_file(tmp_path, at(server.port)))
    assert found["eu-west"]["commands"] == "it does not know eval"
    assert doctor.status == 1


def test_a_login_that_may_not_even_greet_is_told_what_it_lacks(
    tmp_path: Path, own_redis: RedisProcess, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TW_PASSWORD", "pw")
    allow(own_redis.port, "tw", "pw", but="+client|setname")
    there = f"redis://tw:${{TW_PASSWORD}}@127.0.0.1:{own_redis.port}"
    found = doctor(a_file(tmp_path, f"eu-west: {{redis: '{there}', residency: [eu]}}"))
    place = f"127.0.0.1:{own_redis.port}"
    assert found["eu-west"]["reachable"] == f"{place}: its login lacks +client|setname"
