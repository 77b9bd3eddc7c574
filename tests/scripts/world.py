"""What the tests of scripts build their worlds from."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tests.any_store import AnyStore
from tradewind import ids
from tradewind.errors import StoreError
from tradewind.ids import partition_of
from tradewind.store.keys import PartitionKeys, partition_keys
from tradewind.store.region_client import RegionClient
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Bury,
    Claim,
    ClaimBatch,
    EnqueueOutcome,
    Exported,
    Failure,
    LedgerMark,
    NewTask,
    Pointer,
    Priority,
    Record,
    Stored,
)

PARTITIONS, PLACE = 16, 3
FAILURE = Failure("error", "boom", "Traceback: boom")
LEASE_MS = 60_000
DAY_MS = 86_400_000
LATER_MS = 9_000_000_000_000  # in the year 2255
_numbers = itertools.count(1)


def an_id(place: int = PLACE, region: str = "eu-west") -> str:
    return ids.mint(1_700_000_000_000, ids.region_code(region), place, next(_numbers))


def a_task(
    task_id: str = "",
    queue: str = "mail",
    name: str = "send",
    priority: Priority = Priority.NORMAL,
    *,
    epoch: int = 1,
    delay_ms: int = 0,
    not_before_ms: int = 0,
    expires_ms: int = 0,
    fence: Sequence[str] = (),
    max_crashes: int = 3,
    done_key: bytes = b"",
    mark: LedgerMark | None = None,
    packed: bytes = b"packed",
) -> NewTask:
    return NewTask(
        task_id=task_id or an_id(),
        queue=queue,
        name=name,
        priority=priority,
        packed=packed,
        fence=tuple(fence),
        epoch=epoch,
        delay_ms=delay_ms,
        not_before_ms=not_before_ms,
        expires_ms=expires_ms,
        max_crashes=max_crashes,
        done_key=done_key,
        mark=mark,
    )


def a_mark(
    key: bytes = b"k" * 32,
    *,
    digest: bytes = b"d" * 16,
    request_tag: bytes = b"r" * 16,
    business: bool = True,
    window_ms: int = DAY_MS,
    not_before_ms: int = 0,
) -> LedgerMark:
    return LedgerMark(key, business, digest, request_tag, window_ms, not_before_ms)


def place_of(mark: LedgerMark) -> int:
    return partition_of(mark.key, PARTITIONS)


def keys_at(place: int = PLACE) -> PartitionKeys:
    return partition_keys(PARTITIONS)[place]


def client_of(store: RegionStore) -> RegionClient:
    """The part that tests reach into to set clocks back, or to change the fleet."""
    return cast("Any", store)._client


async def outcome(store: AnyStore, task: NewTask) -> EnqueueOutcome | StoreError:
    outcomes, _ = await store.enqueue([task], timeout_s=5)
    return outcomes[0]


async def stored(store: AnyStore, task: NewTask | None = None) -> NewTask:
    task = task or a_task()
    answer = await outcome(store, task)
    assert isinstance(answer, Stored), answer
    assert answer.created
    return task


async def claim_batch(
    store: AnyStore,
    *,
    place: int = PLACE,
    queues: Sequence[str] = ("mail",),
    handlers: Sequence[str] = ("send",),
    limit: int = 10,
    suspects: int = 0,
    lease_ms: int = LEASE_MS,
    worker_id: str = "w1",
) -> ClaimBatch:
    return await store.claim(
        place,
        worker_id=worker_id,
        lease_ms=dict.fromkeys(queues, lease_ms),
        handlers=handlers,
        limit=limit,
        suspects=suspects,
    )


async def claimed(
    store: AnyStore, task: NewTask | None = None, *, lease_ms: int = LEASE_MS
) -> Claim:
    """A claim on `task`, or on a new one: no other may be ready, no suspect where it is one."""
    task = task or await stored(store)
    is_suspect = (await record_of(store, task.task_id)).crashes > 0
    batch = await claim_batch(
        store,
        place=ids.parse(task.task_id).partition,
        queues=[task.queue],
        handlers=[task.name],
        limit=0 if is_suspect else 10,
        suspects=10 if is_suspect else 0,
        lease_ms=lease_ms,
    )
    (claim,) = batch.claims
    assert claim.task_id == task.task_id
    return claim


def a_bury(claim: Claim, *, may_move: bool = True, retention_ms: int = DAY_MS) -> Bury:
    return Bury(
        claim, "exhausted", FAILURE, retention_ms, may_move, failover="" if may_move else "no"
    )


async def dead(
    store: AnyStore,
    task: NewTask | None = None,
    *,
    may_move: bool = True,
    retention_ms: int = DAY_MS,
) -> Record:
    claim = await claimed(store, task)
    (settled,) = await store.bury([a_bury(claim, may_move=may_move, retention_ms=retention_ms)])
    assert not isinstance(settled, StoreError)
    assert not settled.lost
    return await record_of(store, claim.task_id)


async def record_of(store: AnyStore, task_id: str) -> Record:
    found = await store.read(task_id)
    assert isinstance(found, Record), found
    return found


async def pointer_of(store: AnyStore, task_id: str) -> Pointer:
    found = await store.read(task_id)
    assert isinstance(found, Pointer), found
    return found


async def exporting(
    store: AnyStore, task: NewTask | None = None, *, target: str = "us-east"
) -> Exported:
    record = await dead(store, task)
    exported = await store.begin_export(record, target, groups=["eu"])
    assert exported is not None
    return exported


async def now_ms(store: RegionStore, place: int = PLACE) -> int:
    """The clock of the Redis, give or take a millisecond."""
    return await client_of(store).nodes.server_now_ms(place)


def let_expire(raw: Any, task_id: str) -> None:
    """As if the task's expiry had passed by now."""
    keys = keys_at(ids.parse(task_id).partition)
    raw.hset(keys.task(task_id), "ex", 1)
    raw.zadd(keys.expiry, {task_id: 1}, xx=True)


def snapshot(raw: Any, place: int = PLACE) -> Mapping[str, Any]:
    """Every key of a partition with its value, for comparing the world before and after."""
    # Only keys of this partition: a Cluster client scans every primary.
    found: dict[str, Any] = {}
    for key in raw.scan_iter(match=f"{keys_at(place).prefix}*", count=1000):
        match raw.type(key):
            case "hash":
                found[key] = raw.hgetall(key)
            case "list":
                found[key] = raw.lrange(key, 0, -1)
            case "zset":
                found[key] = raw.zrange(key, 0, -1, withscores=True)
            case _:
                found[key] = raw.get(key)
    return found


def tickets(
    raw: Any, queue: str = "mail", priority: int = 1, place: int = PLACE, *, suspect: bool = False
) -> list[str]:
    """Ids in a ready list, head first."""
    key = keys_at(place).ready(queue, priority, suspect=suspect)
    texts = cast("list[str]", raw.lrange(key, 0, -1))
    return [text.partition(":")[0] for text in texts]
