"""The login: exactly the commands we use, told apart from too few and from far too many."""

import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ResponseError

from tests.conftest import fleet_at
from tests.redis_keys import allow, connected
from tests.scripts.world import PLACE, a_mark, a_task, claim_batch, dead, exporting, stored
from tradewind.clock import SystemClock
from tradewind.doctor import RegionFacts, Rights
from tradewind.fleet import Fleet
from tradewind.limits import DAY_MS
from tradewind.local.scratch import RedisProcess
from tradewind.store.checkup import check_up
from tradewind.store.region_store import RegionStore
from tradewind.store.rights import COMMANDS, OPTIONAL, acl_rules, verdict
from tradewind.task import Cancel

STORE = Path(str(files("tradewind.store")))
IN_LUA = re.compile(r"redis\.p?call\(\s*'(\w+)'")
IN_PYTHON = re.compile(r'\[\s*"([A-Z]{2,})"(?:, "([A-Z]{2,})")?')
SENT = re.compile(r'send_command\(\s*"(\w+)"(?:, "([A-Z]+)")?')
#: Sent by redis-py on each new connection.
BY_THE_LIBRARY = {"client|setinfo", "client|setname"}
#: Without these there is nobody to tell of any right: what is said instead.
VITAL = {
    "client|setname": "its login lacks +client|setname",
    "info": "its login may not read INFO",
}


def used() -> set[str]:
    found = {
        name.lower() for path in STORE.rglob("*.lua") for name in IN_LUA.findall(path.read_text())
    }
    for path in STORE.glob("*.py"):
        if path.name == "rights.py":
            continue
        for pattern in (IN_PYTHON, SENT):
            for name, sub in pattern.findall(path.read_text()):
                container = name in {"ACL", "CLIENT", "CLUSTER", "CONFIG"}
                found.add(f"{name}|{sub}".lower() if container else name.lower())
    found -= {"sentinel"}  # asked of Sentinels, whose users are their own
    return found | BY_THE_LIBRARY | {"acl|dryrun"}  # by rights.py itself


def test_every_command_that_we_send_is_in_the_table_and_no_other() -> None:
    assert used() == set(COMMANDS)


def test_the_page_names_the_same_rights() -> None:
    page = (STORE.parents[1] / "docs" / "doctor.md").read_text()
    assert f"ACL SETUSER tradewind on >PASSWORD {' '.join(acl_rules())}\n" in page


@pytest.mark.parametrize(
    ("said", "unknown"),
    [("Command 'EVAL' not found", list(COMMANDS.keys() - OPTIONAL)), ("unknown command 'ACL'", [])],
    ids=["it has none of them", "it cannot be asked"],
)
def test_only_a_command_that_is_not_there_is_unknown(said: str, unknown: list[str]) -> None:
    told = verdict([ResponseError(said)] * (len(COMMANDS) + 1))
    assert told is not None
    assert (set(told.unknown), told.missing, told.is_almighty) == (set(unknown), [], False)


@pytest.fixture
def limited(own_redis: RedisProcess) -> Fleet:
    """A region whose login may do what we use and nothing else."""
    allow(own_redis.port, "tw", "secret")
    fleet = fleet_at("standalone", [own_redis.port])
    region = fleet.regions["eu-west"]
    target = replace(region.redis, username="tw", password="secret")
    return replace(fleet, regions={"eu-west": replace(region, redis=target)})


@pytest.fixture
async def store(limited: Fleet) -> AsyncIterator[RegionStore]:
    one = RegionStore(limited.regions["eu-west"], limited)
    await one.start()
    yield one
    await one.close()


@pytest.fixture
def raw(own_redis: RedisProcess) -> Any:
    return connected(own_redis.port)


async def test_that_login_is_enough_for_all_that_a_task_may_meet(
    store: RegionStore, raw: Any
) -> None:
    raw.acl_log_reset()
    await stored(store, a_task(mark=a_mark(business=False), delay_ms=60_000))
    for _ in range(3):
        await stored(store)
    for task in (await claim_batch(store)).claims:
        await store.confirm_cancel([Cancel(task, DAY_MS)])
    died = await dead(store)
    await exporting(store)
    assert await store.redrive(died.task_id, 1)
    await store.sweep(PLACE, worker_id="w", queues=["mail"], courier=True)
    assert await store.wait(["mail"], [PLACE], timeout_s=5) == PLACE
    assert await store.seal(PLACE)
    for place in range(16):
        await store.indexed(place, "")
    seen = await store.scan(PLACE, "", limit=1_000)
    await store.reconcile(PLACE, sorted(seen.task_ids[PLACE]))
    assert await store.recount(PLACE, ["mail"]) == []
    assert await store.oldest() != {}
    assert raw.acl_log() == []


async def looked(fleet: Fleet) -> RegionFacts:
    return await check_up(fleet.regions["eu-west"], fleet, SystemClock())


async def rights(fleet: Fleet) -> Rights:
    return (await looked(fleet)).rights


async def test_doctor_says_that_it_is_enough(limited: Fleet) -> None:
    assert await rights(limited) == Rights("tw", is_known=True)


async def test_doctor_names_each_right_that_is_missing(limited: Fleet, raw: Any) -> None:
    for name in COMMANDS.keys() - OPTIONAL:
        raw.execute_command("ACL", "SETUSER", "tw", f"-{name}")
        told = await looked(limited)
        if name in VITAL:
            assert told.rights == Rights()
            assert [node.cause for node in told.silent] == [VITAL[name]]
        else:
            assert told.rights == Rights("tw", is_known=True, missing=(f"+{name}",))
        raw.execute_command("ACL", "SETUSER", "tw", f"+{name}")


NARROW = {"~tw:*": ["resetkeys"], "&tw:*": ["resetchannels"]}


@pytest.mark.parametrize(("missing", "rules"), NARROW.items(), ids=NARROW)
async def test_doctor_names_the_pattern_that_is_missing(
    limited: Fleet, raw: Any, missing: str, rules: list[str]
) -> None:
    raw.execute_command("ACL", "SETUSER", "tw", *rules)
    assert await rights(limited) == Rights("tw", is_known=True, missing=(missing,))


async def test_doctor_says_when_it_cannot_know(limited: Fleet, raw: Any) -> None:
    raw.execute_command("ACL", "SETUSER", "tw", "-acl|dryrun")
    assert await rights(limited) == Rights("tw")


async def test_a_login_that_may_do_everything_is_told(own_redis: RedisProcess) -> None:
    with contextlib.closing(connected(own_redis.port)):
        told = await rights(fleet_at("standalone", [own_redis.port]))
    assert told == Rights("default", is_known=True, is_almighty=True)
