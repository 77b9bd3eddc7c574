"""One of everything that a partition can hold, and every call, for a slot between two nodes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    LATER_MS,
    LEASE_MS,
    a_bury,
    a_mark,
    a_task,
    an_id,
    claim_batch,
    claimed,
    client_of,
    dead,
    exporting,
    keys_at,
    outcome,
    record_of,
    stored,
)
from tradewind.audit import AuditRecord
from tradewind.control import Control, Stamp
from tradewind.errors import StoreError
from tradewind.fleet import DeadTaskHandler, QueuePolicy
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Cancel,
    Claim,
    Crash,
    Exported,
    Finish,
    Heartbeat,
    NewTask,
    Notice,
    Priority,
    Progress,
    Record,
    Release,
    Resting,
    RetryAt,
)

PLACE = 0  # the one that also keeps the workers
KEYS = keys_at(PLACE)
DELAY = {"delay_ms": 3_600_000, "expires_ms": LATER_MS}
MARK, PENDING_MARK = a_mark(b"a" * 32, business=False), a_mark(b"b" * 32, business=False)
BEAT = Heartbeat("w1", "eu-west", ("mail",), ("send",), 1, 0, 0.0, 0.0, 0, "1")
SOON_S = 30.0  # the longest a test waits for anything


@dataclass
class World:
    """One of everything that a partition can hold, all in one slot."""

    store: RegionStore
    claim: Claim
    suspect: Claim
    odd_id: str
    lost_ids: list[str]
    dead: Record
    notice: Notice
    moving: Exported
    moving_ready: Exported
    moving_delayed: Exported
    moving_dead: Exported
    incoming: Exported
    imported: Exported
    ready_id: str
    delayed_id: str
    reserved_id: str


def foreign(task_id: str, former: State = State.DEAD_LETTER, *, crashes: int = 0) -> Exported:
    record = Record(task_id, "us-east", State.MOVING, b"p", 2, 7, 1, crashes, 1_700_000_000_000)
    return Exported(record, "mail", "send", Priority.NORMAL, 2, "eu-west", 0, 3, former=former)


async def leaving(store: RegionStore, task_id: str) -> Exported:
    record = await record_of(store, task_id)
    exported = await store.begin_export(record, "us-east", groups=[], reason="evacuation")
    assert exported is not None
    return exported


async def untold(store: RegionStore, task: NewTask) -> Record:
    """Dead for good, for longer than word of it is waited for."""
    record = await dead(store, task, may_move=False)
    await client_of(store).plain(PLACE, [["ZADD", KEYS.hooks, "XX", 1, record.task_id]])
    return record


async def seeded(store: RegionStore) -> World:
    client = client_of(store)
    hooked = QueuePolicy(on_dead=DeadTaskHandler("tell"))
    client.fleet = replace(client.fleet, queues={"mail": hooked})

    async def new(**fields: Any) -> Any:
        return await stored(store, a_task(an_id(PLACE), **fields))

    async def crashed(**fields: Any) -> Any:
        task = await new(**fields)
        await store.crashed([a_crash(await claimed(store, task))])
        return task

    first = await claimed(store, await new(done_key=b"f" * 32))
    await store.finish([Finish(first, b"r", "", DAY_MS)])
    await claimed(store, await new(), lease_ms=0)
    await dead(store, await new(), retention_ms=0)
    moving = await exporting(store, await new())
    dead_record = await dead(store, await new())
    told, lying = [await untold(store, await new()) for _ in range(2)]
    claim = await claimed(store, await new(done_key=b"g" * 32))
    asked = await claimed(store, await new(), lease_ms=0)
    await store.cancel(asked.task_id, retention_ms=DAY_MS)
    await crashed(name="x")
    await claim_batch(store, place=PLACE, limit=0, suspects=1)  # parks it
    await new(name="x")
    stale = await new(name="y")
    over = [await new(name="z", expires_ms=LATER_MS), await crashed(expires_ms=LATER_MS)]
    await claim_batch(store, place=PLACE, handlers=["send"])  # parks them
    odd = [await crashed(priority=Priority.HIGH) for _ in range(3)]
    batch = await claim_batch(store, place=PLACE, suspects=1)
    await claim_batch(store, place=PLACE, suspects=1, lease_ms=0)
    await store.cancel(stale.task_id, retention_ms=DAY_MS)
    waiting = [(await new(**fields)).task_id for fields in ({}, DELAY)]
    moves = [await leaving(store, task_id) for task_id in (*waiting, lying.task_id)]
    await store.import_task(imported := foreign(an_id(PLACE)), hops=b"", timeout_s=5)
    for priority in Priority:
        await new(priority=priority)
    ready = await new()
    await new(done_key=b"f" * 32)
    over += [await new(expires_ms=LATER_MS), await new(delay_ms=60_000, expires_ms=LATER_MS)]
    await new(expires_ms=LATER_MS)
    delayed = await new(delay_ms=3_600_000, expires_ms=LATER_MS)
    await new(delay_ms=1)
    reserved_id = an_id(PLACE)
    await store.reserve(PENDING_MARK, reserved_id, "us-east", 1)
    await store.passed(PLACE, 7, {"full": 2, "pinned": 3})
    await store.control_accept(Control(Stamp(2, "b")), timeout_s=5)
    await store.heartbeat(BEAT)
    await store.sweep(PLACE, worker_id="w1", queues=[], courier=True)
    await new(delay_ms=1)
    failed = await claimed(store, await crashed(queue="odd"))
    await store.retry([RetryAt(failed, 1, FAILURE)])
    for priority in Priority:  # a declared key that is absent ends every call before it starts
        await new(delay_ms=3_600_000, priority=priority)
    lost = [(await new(queue="lost")).task_id for _ in range(2)]
    await client_of(store).plain(PLACE, [["LPOP", KEYS.ready("lost", 1)]])
    await let_expire(store, *(task.task_id for task in over))
    return World(
        store,
        claim,
        batch.claims[0],
        odd[0].task_id,
        [*lost, claim.task_id, moving.record.task_id, *(t.task_id for t in odd), an_id(PLACE)],
        dead_record,
        Notice(told, "mail", "send", 0, 0),
        moving,
        moves[0],
        moves[1],
        moves[2],
        foreign(an_id(PLACE)),
        imported,
        ready.task_id,
        delayed.task_id,
        reserved_id,
    )


async def let_expire(store: RegionStore, *task_ids: str) -> None:
    """As if their expiry had passed by now."""
    for task_id in task_ids:
        changes = [
            ["HSET", KEYS.task(task_id), "ex", 1],
            ["ZADD", KEYS.expiry, "XX", 1, task_id],
        ]
        await client_of(store).plain(PLACE, changes)


async def first_of(answers: Awaitable[list[Any]]) -> Any:
    """The one answer of a batched call; raises it if it is an error."""
    (answer,) = await answers
    if isinstance(answer, StoreError):
        raise answer
    return answer


async def enqueue(world: World, **fields: Any) -> None:
    answer = await outcome(world.store, a_task(an_id(PLACE), **fields))
    if isinstance(answer, StoreError):
        raise answer


def a_crash(claim: Claim) -> Crash:
    return Crash(claim, "the child died", DAY_MS, may_move=False, failover="stays")


async def back(world: World, task: Exported) -> None:
    await world.store.abort_export(
        task.record.task_id, 2, "us-east", reason="r", retry_after_ms=None
    )


async def listed(world: World, kind: str) -> None:
    for lane in await world.store.lanes(PLACE):
        if lane.kind == kind:
            await world.store.stranded(PLACE, lane, offset=0, limit=9)


Action = Callable[[World], Awaitable[Any]]
ACTIONS: dict[str, Action] = {
    "enqueue": enqueue,
    "enqueue of a delayed task": lambda w: enqueue(w, delay_ms=60_000),
    "enqueue with a ledger entry": lambda w: enqueue(w, mark=MARK),
    "enqueue of a task that may expire": lambda w: enqueue(w, expires_ms=LATER_MS),
    "enqueue of an expired task": lambda w: enqueue(w, expires_ms=1),
    "refuse": lambda w: w.store.refuse(an_id(PLACE), 1),
    "reserve": lambda w: w.store.reserve(MARK, an_id(PLACE), "us-east", 1),
    "reserve, moving on": lambda w: w.store.reserve(PENDING_MARK, w.reserved_id, "ap-south", 2),
    "confirm": lambda w: w.store.confirm(PENDING_MARK, w.reserved_id, 1),
    "unreserve": lambda w: w.store.unreserve(PENDING_MARK, w.reserved_id, 1),
    "forget": lambda w: w.store.forget(PENDING_MARK, w.reserved_id),
    "watch": lambda w: w.store.watch(w.ready_id),
    "claim": lambda w: claim_batch(w.store, place=PLACE),
    "claim with patience": lambda w: w.store.claim(
        PLACE,
        worker_id="w",
        lease_ms={"mail": LEASE_MS},
        handlers=["send"],
        limit=3,
        starvation_ms={"mail": 0},
    ),
    "claim of suspects": lambda w: claim_batch(w.store, place=PLACE, limit=0, suspects=5),
    "claim of parked tasks": lambda w: claim_batch(w.store, place=PLACE, handlers=["x"]),
    "claim of another queue": lambda w: claim_batch(w.store, place=PLACE, queues=["other"]),
    "renew": lambda w: first_of(w.store.renew([w.claim], {"mail": LEASE_MS})),
    "finish": lambda w: first_of(w.store.finish([Finish(w.claim, b"r", "", DAY_MS)])),
    "retry": lambda w: first_of(w.store.retry([RetryAt(w.claim, 5_000, FAILURE)])),
    "bury": lambda w: first_of(w.store.bury([a_bury(w.claim)])),
    "release": lambda w: first_of(w.store.release([Release(w.claim)])),
    "release of a suspect": lambda w: first_of(w.store.release([Release(w.suspect)])),
    "crashed": lambda w: first_of(w.store.crashed([a_crash(w.claim)])),
    "crashed of a suspect": lambda w: first_of(w.store.crashed([a_crash(w.suspect)])),
    "confirm_cancel": lambda w: first_of(w.store.confirm_cancel([Cancel(w.claim, DAY_MS)])),
    "progress": lambda w: first_of(w.store.progress([Progress(w.claim, 0.5, "half")])),
    "cancel of a ready task": lambda w: w.store.cancel(w.ready_id, retention_ms=DAY_MS),
    "cancel of a suspect": lambda w: w.store.cancel(w.odd_id, retention_ms=DAY_MS),
    "cancel of a delayed task": lambda w: w.store.cancel(w.delayed_id, retention_ms=DAY_MS),
    "cancel of a running task": lambda w: w.store.cancel(w.claim.task_id, retention_ms=DAY_MS),
    "cancel of a dead task": lambda w: w.store.cancel(w.dead.task_id, retention_ms=DAY_MS),
    "redrive": lambda w: w.store.redrive(w.dead.task_id, w.dead.epoch),
    "purge": lambda w: w.store.purge(w.dead.task_id, w.dead.epoch),
    "oldest": lambda w: w.store.oldest(),
    "reap": lambda w: w.store.reap(PLACE, limit=10),
    "sweep": lambda w: w.store.sweep(PLACE, worker_id="w1", queues=["mail"], courier=True),
    "reconcile": lambda w: w.store.reconcile(PLACE, w.lost_ids),
    "recount": lambda w: w.store.recount(PLACE, ["mail"]),
    "outbox": lambda w: w.store.outbox(PLACE, limit=10),
    "keep": lambda w: w.store.keep(w.dead, reason="r", retry_after_ms=None),
    "notices": lambda w: w.store.notices(PLACE, limit=10, hold_ms=1_000),
    "noticed": lambda w: w.store.noticed(w.notice, retry_after_ms=None),
    "noticed, to be told again": lambda w: w.store.noticed(w.notice, retry_after_ms=0),
    "begin_export": lambda w: w.store.begin_export(w.dead, "us-east", groups=[]),
    "begin_export of a ready task": lambda w: leaving(w.store, w.ready_id),
    "begin_export of a suspect": lambda w: leaving(w.store, w.odd_id),
    "begin_export of a delayed task": lambda w: leaving(w.store, w.delayed_id),
    "begin_export of a dead letter": lambda w: leaving(w.store, w.notice.record.task_id),
    "moving": lambda w: w.store.moving(PLACE, limit=10),
    "stranded": lambda w: listed(w, "ready"),
    "stranded, among the parked": lambda w: listed(w, "parked"),
    "stranded, until it is due": lambda w: listed(w, "due"),
    "ack_export": lambda w: w.store.ack_export(
        w.moving.record.task_id, 2, "us-east", keep_ms=DAY_MS
    ),
    "ack_export of an evacuated task": lambda w: w.store.ack_export(
        w.moving_ready.record.task_id, 2, "us-east", keep_ms=DAY_MS, order_ms=8
    ),
    "passed": lambda w: w.store.passed(PLACE, 7, {"pinned": 1}),
    "abort_export": lambda w: w.store.abort_export(
        w.moving.record.task_id, 2, "us-east", reason="r", retry_after_ms=0
    ),
    "abort_export of a ready task": lambda w: back(w, w.moving_ready),
    "abort_export of a delayed task": lambda w: back(w, w.moving_delayed),
    "abort_export of a dead letter": lambda w: back(w, w.moving_dead),
    "import_task": lambda w: w.store.import_task(w.incoming, hops=b"", timeout_s=5),
    "import_task of a delayed task": lambda w: w.store.import_task(
        foreign(an_id(PLACE), State.SCHEDULED), hops=b"", timeout_s=5, delay_ms=60_000
    ),
    "import_task of a suspect": lambda w: w.store.import_task(
        foreign(an_id(PLACE), State.PENDING, crashes=1), hops=b"", timeout_s=5
    ),
    "import_task of a dead letter": lambda w: w.store.import_task(
        replace(foreign(an_id(PLACE)), resting=Resting(DAY_MS, 1)), hops=b"", timeout_s=5
    ),
    "settle_import": lambda w: w.store.settle_import(w.imported.record.task_id, 2),
    "refuse_import": lambda w: w.store.refuse_import(w.incoming.record.task_id, 2),
    "heartbeat": lambda w: w.store.heartbeat(BEAT),
    "heartbeat without a report": lambda w: w.store.farewell("w1"),
    "workers": lambda w: w.store.workers(),
    "audit": lambda w: w.store.audit(AuditRecord("pause", "somebody")),
    "control": lambda w: w.store.control(timeout_s=5),
    "control_promise": lambda w: w.store.control_promise(Stamp(3, "c"), timeout_s=5),
    "control_accept": lambda w: w.store.control_accept(Control(Stamp(3, "c")), timeout_s=5),
}
