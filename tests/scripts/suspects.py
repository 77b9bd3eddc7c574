"""Tasks that crash, for the tests of scripts."""

from tests.scripts.world import (
    DAY_MS,
    PLACE,
    claimed,
    stored,
)
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Claim,
    Crash,
    NewTask,
    Settled,
)


def a_crash(claim: Claim, *, may_move: bool = False) -> Crash:
    return Crash(
        claim,
        "the child died of signal 9",
        DAY_MS,
        may_move,
        move_after_ms=7_000 if may_move else 0,
        failover="" if may_move else "stays",
    )


async def reaped(store: RegionStore, claim: Claim) -> State:
    """Its lease ends without a word. Only for claims with a lease of 0 ms."""
    (one,) = await store.reap(PLACE, limit=1)
    assert one.task_id == claim.task_id
    return one.state


async def child_died(store: RegionStore, claim: Claim) -> State:
    (settled,) = await store.crashed([a_crash(claim)])
    assert isinstance(settled, Settled)
    assert not settled.lost
    return State(settled.state or "PENDING")


async def suspect(store: RegionStore, task: NewTask | None = None) -> NewTask:
    """A ready task with one crash."""
    task = task or await stored(store)
    await child_died(store, await claimed(store, task))
    return task
