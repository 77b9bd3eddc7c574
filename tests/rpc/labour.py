"""What workers and couriers do to a task, step by step, on the real stores."""

from tests.rpc.flaky import FlakyStore
from tradewind import codec
from tradewind.ids import parse
from tradewind.task import Bury, Claim, Exported, Failure, Finish, Record, Release, RetryAt

LEASE_MS = 30_000


async def claim(store: FlakyStore, task_id: str, queue: str = "default") -> Claim:
    """Take the task, which must be ready, and no other one of its partition."""
    batch = await store.real.claim(
        parse(task_id).partition,
        worker_id="w",
        lease_ms={queue: LEASE_MS},
        handlers=["email.send", "image.resize"],
        limit=16,
    )
    others = [held for held in batch.claims if held.task_id != task_id]
    await store.real.release([Release(held) for held in others])
    return next(held for held in batch.claims if held.task_id == task_id)


async def finish(store: FlakyStore, held: Claim, result: bytes = b"1") -> None:
    """Complete it."""
    await store.real.finish([Finish(held, result, "application/json", 60_000)])


async def retry(store: FlakyStore, held: Claim, delay_ms: int = 60_000) -> None:
    """Fail an attempt."""
    await store.real.retry([RetryAt(held, delay_ms, Failure("error", "boom"))])


async def bury(
    store: FlakyStore,
    task_id: str,
    *,
    queue: str = "default",
    message: str = "boom",
    may_move: bool = False,
) -> Claim:
    """Claim it and let it die."""
    held = await claim(store, task_id, queue)
    failure = Failure("error", message, "line 1")
    await store.real.bury([Bury(held, "exhausted", failure, 60_000, may_move)])
    return held


async def begin_export(store: FlakyStore, task_id: str, target: str) -> Exported:
    """Begin a move of a dead task."""
    record = await store.real.read(task_id)
    assert isinstance(record, Record)
    exported = await store.real.begin_export(record, target, groups=["eu", "us", "apac"])
    assert exported is not None
    return exported


async def import_task(store: FlakyStore, exported: Exported) -> None:
    """Store it at the target."""
    record = exported.record
    hops = codec.add_hop(
        record.hops,
        region=record.region,
        state=record.state,
        attempts=record.attempts,
        reason="exhausted",
        at_ms=record.finished_ms,
    )
    answer = await store.real.import_task(exported, hops=hops, timeout_s=5)
    assert answer == "imported"


async def move(stores: dict[str, FlakyStore], task_id: str, source: str, target: str) -> None:
    """Move a task for good: bury, export, import, acknowledge, settle."""
    await bury(stores[source], task_id, may_move=True)
    exported = await begin_export(stores[source], task_id, target)
    await import_task(stores[target], exported)
    kept = await stores[source].real.ack_export(task_id, exported.epoch, target, keep_ms=60_000)
    assert kept
    await stores[target].real.settle_import(task_id, exported.epoch)
