"""Damaged data: whatever is lost or spoilt, every task ends, as done or as a dead letter.

One partition full of tasks in every state, each of which loses one field, or has it spoilt; beside
them tasks that are whole. And each key that names tasks, lost.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.conftest import Site, fleet_at, site_of
from tests.scripts.test_reconcile import counted, failed, look_over, one_of_everything, suspect
from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    LATER_MS,
    PLACE,
    a_task,
    claimed,
    client_of,
    dead,
    exporting,
    keys_at,
    stored,
)
from tradewind.attempts.job import Job, prepare
from tradewind.errors import StoreContractBroken, StoreError
from tradewind.fleet import DeadTaskHandler
from tradewind.handlers import App, Context
from tradewind.handlers.context import Signals
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import Bury, Failure, Finish, Priority, Record
from tradewind.v1 import record_pb2, task_pb2

KEYS: Final = keys_at()
SPEC = task_pb2.TaskSpec(queue="mail", name="send", payload=b"{}", tenant="acme")
PACKED = record_pb2.StoredSpec(spec=SPEC).SerializeToString()
ENDS = {State.COMPLETED, State.DEAD_LETTER, State.CANCELLED, State.EXPIRED}
SPOILT = b"\xff no \x00"


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Site:
    """One server will do: damage does not ask who serves a slot."""
    return site_of(request, "standalone")


async def send(ctx: Context) -> None:
    """Runs whatever it gets."""


async def run_all(store: RegionStore, raw: Any) -> None:
    """What workers do, until nothing waits: all time that tasks wait for has passed."""
    app = App()
    for name in ("send", "x", "damaged"):
        app.task(name)(send)
    fleet = fleet_at("standalone", [1])
    for _ in range(20):
        for key in (KEYS.leases, *KEYS.due.values()):
            if ids := raw.zrange(key, 0, -1):
                raw.zadd(key, dict.fromkeys(ids, 1))
        await store.reap(PLACE, limit=100)
        await store.sweep(PLACE, worker_id="w", queues=QUEUES, courier=True)
        batch = await store.claim(
            PLACE,
            worker_id="w",
            lease_ms=dict.fromkeys(QUEUES, 60_000),
            handlers=sorted(app.handlers),
            limit=100,
            suspects=100,
        )
        if not batch.claims:
            return
        found = [(claim, prepare(claim, app, fleet, Signals())) for claim in batch.claims]
        done = [
            Finish(claim, b"1", "application/json", DAY_MS)
            for claim, how in found
            if isinstance(how, Job)
        ]
        bad = [
            Bury(claim, "damaged", FAILURE, DAY_MS, may_move=False, failover="no")
            for claim, how in found
            if not isinstance(how, Job)
        ]
        outcomes = [*await store.finish(done), *await store.bury(bad)]
        assert [each for each in outcomes if isinstance(each, StoreError)] == []


QUEUES = ("mail", "other", "odd", "default")


async def one_in(store: RegionStore, state: str) -> str:
    """A task in that state, with all the fields that it may have."""
    common: Mapping[str, Any] = {"packed": PACKED, "expires_ms": LATER_MS, "max_crashes": 9}
    if state == "scheduled":
        return (await stored(store, a_task(delay_ms=600_000, **common))).task_id
    if state in {"suspect", "failed"}:
        return await {"suspect": suspect, "failed": failed}[state](store, **common)
    task = await stored(store, a_task(priority=Priority.LOW, **common))
    match state:
        case "running":
            await claimed(store, task)
        case "dead":
            await dead(store, task)
        case "moving":
            await exporting(store, task)
        case _:
            pass
    return task.task_id


STATES = ("dead", "moving", "running", "failed", "suspect", "scheduled", "pending")


DAMAGES: Final = {
    "lost, and the sweep comes first": (False, False),
    "lost, and workers come first": (False, True),
    "spoilt": (True, False),
}


@pytest.mark.parametrize(("spoil", "workers_first"), DAMAGES.values(), ids=DAMAGES)
async def test_whatever_field_a_record_loses_its_task_ends(
    store: RegionStore, raw: Any, spoil: bool, workers_first: bool
) -> None:
    damaged: dict[str, str] = {}
    whole: dict[str, str] = {}
    for state in STATES:
        task_id = await one_in(store, state)
        whole[task_id] = state
        for field in sorted(raw.hkeys(KEYS.task(task_id))):
            damaged[await one_in(store, state)] = f"{state} {field}"
    for task_id, what in damaged.items():
        field = what.split(" ")[1]
        if spoil:
            raw.hset(KEYS.task(task_id), field, SPOILT)
        else:
            raw.hdel(KEYS.task(task_id), field)
    if workers_first:
        await run_all(store, raw)
    for _ in range(2):
        await look_over(store)
        await run_all(store, raw)
    assert await stuck(store, raw, whole | damaged) == {}
    for task_id, state in whole.items():
        expected = {"dead": State.DEAD_LETTER, "moving": State.MOVING}.get(state, State.COMPLETED)
        assert await state_of(store, task_id) is expected
    for task_id, what in damaged.items():
        if what.split(" ")[1] in {"s", "n"}:
            died = await store.read(task_id)
            assert isinstance(died, Record)
            assert (died.state, died.death) == (State.DEAD_LETTER, "damaged"), what
    await look_over(store)
    assert await look_over(store) == 0


LOST: Final = {
    **{name: (getattr(KEYS, name),) for name in ("leases", "expiry", "dead", "dead_until")},
    **{name: (getattr(KEYS, name),) for name in ("outbox", "hooks", "moving", "imports")},
    **{name: (getattr(KEYS, name),) for name in ("counts", "parked", "courier", "identity")},
    "due": tuple(KEYS.due.values()),
    "ready lists": tuple(
        KEYS.ready(queue, priority, suspect=odd)
        for queue in ("mail", "odd")
        for priority in Priority
        for odd in (False, True)
    ),
    "a parked list": (f"{KEYS.prefix}parked:mail x",),
    "all of them": (),
}


SHORT: Final = {"parked", "all of them"}  # the others lose less than that


@pytest.mark.parametrize(
    "lost", [pytest.param(x, marks=() if x in SHORT else pytest.mark.long) for x in LOST]
)
async def test_whatever_index_is_lost_every_task_ends(
    store: RegionStore, raw: Any, lost: str
) -> None:
    await one_of_everything(store)
    records = {key.rpartition(":")[2]: key for key in raw.scan_iter(match=f"{KEYS.prefix}t:*")}
    keys = LOST[lost] or tuple(key for keys in LOST.values() for key in keys)
    for key in keys:
        raw.delete(key)
    await look_over(store)
    await run_all(store, raw)
    await look_over(store)
    await run_all(store, raw)
    assert await stuck(store, raw, records) == {}
    assert await look_over(store) == 0


@pytest.mark.parametrize("state", STATES)
async def test_a_record_that_is_lost_leaves_nothing_that_waits_for_it(
    store: RegionStore, raw: Any, state: str
) -> None:
    gone = await one_in(store, state)
    raw.delete(KEYS.task(gone))
    beside = await one_in(store, "pending")
    await run_all(store, raw)
    await look_over(store)
    assert await state_of(store, beside) is State.COMPLETED
    assert await store.read(gone) is None


async def test_what_is_damaged_is_counted_and_its_dead_letter_says_what_it_lacked(
    store: RegionStore, raw: Any
) -> None:
    task_id = await one_in(store, "pending")
    raw.hdel(KEYS.task(task_id), "q", "n")
    before = counted("record")
    assert await look_over(store) > 0
    assert counted("record") == before + 1
    died = await store.read(task_id)
    assert isinstance(died, Record)
    assert died.failure == Failure("damaged", "its record was damaged: q, n")
    assert (died.death, died.settled) == ("damaged", True)
    assert await store.redrive(task_id, 1), "an operator who knows better may try"


async def test_whoever_hears_of_dead_tasks_hears_of_damaged_ones(
    store: RegionStore, raw: Any
) -> None:
    client = client_of(store)
    hooked = replace(client.fleet.default_queue, on_dead=DeadTaskHandler("told"))
    client.follow(replace(client.fleet, default_queue=hooked))
    task_id = await one_in(store, "scheduled")
    raw.hdel(KEYS.task(task_id), "n")
    await look_over(store)
    assert raw.zrange(KEYS.hooks, 0, -1) == [task_id]
    assert await look_over(store) == 0


async def test_a_task_without_its_body_dies_at_once(store: RegionStore, raw: Any) -> None:
    task_id = await one_in(store, "pending")
    raw.hdel(KEYS.task(task_id), "p")
    await run_all(store, raw)
    died = await store.read(task_id)
    assert isinstance(died, Record)
    assert (died.state, died.death) == (State.DEAD_LETTER, "damaged")


async def test_a_record_that_nobody_can_read_is_no_mystery(store: RegionStore, raw: Any) -> None:
    task_id = await one_in(store, "pending")
    raw.hset(KEYS.task(task_id), "s", SPOILT)
    with pytest.raises(StoreContractBroken, match=f"the record of task {task_id} .* is damaged"):
        await store.read(task_id)
    await look_over(store)
    assert await state_of(store, task_id) is State.DEAD_LETTER


async def stuck(store: RegionStore, raw: Any, tasks: Mapping[str, str]) -> dict[str, object]:
    """Those that have not ended, and wait for no courier either."""
    found: dict[str, object] = {}
    for task_id, what in tasks.items():
        state = await state_of(store, task_id)
        if state not in ENDS and not (state is State.MOVING and raw.zscore(KEYS.moving, task_id)):
            found[what] = state
    return found


async def state_of(store: RegionStore, task_id: str) -> object:
    found = await store.read(task_id)
    return found.state if isinstance(found, Record) else found
