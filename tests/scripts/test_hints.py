"""Hints: whatever happens to a partition, ready work is never left without one.

A hint is taken by one worker, whose claim leaves another while there is work. If one transition
forgot it, nobody would look before the next sweep, which these walks therefore leave out.
"""

import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.scripts.suspects import a_crash
from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    LEASE_MS,
    PLACE,
    a_bury,
    a_task,
    claim_batch,
    keys_at,
)
from tradewind.store.region_store import RegionStore
from tradewind.task import Claim, Finish, Priority, Release, RetryAt

QUEUES, NAMES = ("mail", "news"), ("send", "print")
STEPS = 150
KEYS = keys_at()


class Walk:
    """One partition, its workers and its callers, drawn by `dice`."""

    def __init__(self, store: RegionStore, raw: Any, dice: random.Random) -> None:
        self.store, self.raw, self.dice = store, raw, dice
        self.held: list[Claim] = []
        self.ids: list[str] = []

    async def step(self) -> str:
        """Do something; returns what."""
        steps: list[Callable[[], Coroutine[Any, Any, None]]] = [
            self.enqueue,
            self.claim,
            self.claim,
            self.settle,
            self.settle,
            self.reap,
            self.cancel,
        ]
        step = self.dice.choice(steps)
        await step()
        return step.__name__

    async def enqueue(self) -> None:
        tasks = [
            a_task(
                queue=self.dice.choice(QUEUES),
                name=self.dice.choice(NAMES),
                priority=self.dice.choice(list(Priority)),
                delay_ms=self.dice.choice((0, 0, 0, 1)),
            )
            for _ in range(self.dice.randint(1, 4))
        ]
        self.ids += [task.task_id for task in tasks]
        await self.store.enqueue(tasks, timeout_s=5)

    async def claim(self) -> None:
        """By somebody who took a hint, if there is one; or who knows of work without any."""
        set_now = [hint for hint in hints() if self.raw.exists(hint)]
        if set_now and self.dice.random() < 0.8:
            self.raw.delete(self.dice.choice(set_now))
        batch = await claim_batch(
            self.store,
            queues=QUEUES,
            handlers=self.dice.choice((NAMES, NAMES[:1], NAMES[1:])),
            limit=self.dice.randint(0, 4),
            suspects=self.dice.randint(0, 2),
            lease_ms=self.dice.choice((LEASE_MS, 0)),
        )
        self.held += batch.claims

    async def settle(self) -> None:
        if not self.held:
            return
        claim = self.held.pop(self.dice.randrange(len(self.held)))
        match self.dice.randint(0, 4):
            case 0:
                await self.store.finish([Finish(claim, b"1", "application/json", DAY_MS)])
            case 1:
                await self.store.retry([RetryAt(claim, self.dice.randint(0, 1), FAILURE)])
            case 2:
                await self.store.bury([a_bury(claim, may_move=False)])
            case 3:
                await self.store.release([Release(claim)])
            case _:
                await self.store.crashed([a_crash(claim)])

    async def reap(self) -> None:
        await self.store.reap(PLACE, limit=2)

    async def cancel(self) -> None:
        if self.ids:
            await self.store.cancel(self.dice.choice(self.ids), retention_ms=DAY_MS)


def hints() -> list[str]:
    return [of(queue) for queue in QUEUES for of in (KEYS.wake, KEYS.others, KEYS.suspects)]


def forgotten(raw: Any) -> list[str]:
    """Hints that are missing although there is work that they should tell of."""
    missing: list[str] = []
    for queue in QUEUES:
        ready = [KEYS.ready(queue, priority) for priority in Priority]
        suspects = [KEYS.ready(queue, priority, suspect=True) for priority in Priority]
        if raw.exists(*ready) and not raw.exists(KEYS.wake(queue)):
            missing.append(KEYS.wake(queue))
        if raw.exists(*suspects) and not raw.exists(KEYS.suspects(queue)):
            missing.append(KEYS.suspects(queue))
        if raw.hexists(KEYS.parked, queue) and not raw.exists(KEYS.others(queue)):
            missing.append(KEYS.others(queue))
    return missing


@pytest.mark.parametrize("seed", range(4))
async def test_no_transition_leaves_ready_work_without_a_hint(
    store: RegionStore, raw: Any, seed: int
) -> None:
    walk = Walk(store, raw, random.Random(seed))
    done: list[str] = []
    for _ in range(STEPS):
        done.append(await walk.step())
        assert forgotten(raw) == [], f"after {done[-8:]}"


@pytest.mark.parametrize("seed", range(2))
async def test_who_follows_hints_alone_finds_everything(
    store: RegionStore, raw: Any, seed: int
) -> None:
    """Hint by hint, a few at a time: in the end nothing waits, and nothing was found twice."""
    walk = Walk(store, raw, random.Random(seed))
    for _ in range(20):
        await walk.enqueue()
    found: list[str] = []
    while set_now := [hint for hint in hints() if raw.exists(hint)]:
        raw.delete(walk.dice.choice(set_now))
        limit = walk.dice.randint(1, 3)
        batch = await claim_batch(store, queues=QUEUES, handlers=NAMES, limit=limit)
        found += [claim.task_id for claim in batch.claims]
    assert sorted(found) == sorted(walk.ids)
