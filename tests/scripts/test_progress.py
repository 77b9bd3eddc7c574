"""progress: told by the holder, heard by watchers, gone with the attempt."""

import math
from typing import Any

import pytest

from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    PLACE,
    claim_batch,
    claimed,
    dead,
    keys_at,
    record_of,
    snapshot,
    stored,
)
from tradewind.store.region_store import RegionStore
from tradewind.task import Finish, Progress, Release, RetryAt, Settled

KEYS = keys_at()


async def shown(store: RegionStore, task_id: str) -> tuple[float, str]:
    record = await record_of(store, task_id)
    return record.progress, record.progress_note


async def test_the_holder_says_how_far_it_is(store: RegionStore) -> None:
    claim = await claimed(store)
    assert await shown(store, claim.task_id) == (0.0, "")
    revision = (await record_of(store, claim.task_id)).revision
    said = await store.progress([Progress(claim, 0.25, "a quarter")])
    assert said == [Settled(claim.task_id, lost=False)]
    assert await shown(store, claim.task_id) == (0.25, "a quarter")
    assert (await record_of(store, claim.task_id)).revision > revision


@pytest.mark.parametrize(
    ("said", "kept"), [(-1.0, 0.0), (2.0, 1.0), (math.nan, 0.0), (math.inf, 1.0), (1e-9, 0.0)]
)
async def test_fractions_are_between_nothing_and_all(
    store: RegionStore, said: float, kept: float
) -> None:
    claim = await claimed(store)
    await store.progress([Progress(claim, said)])
    assert (await shown(store, claim.task_id))[0] == kept


async def test_a_note_is_cut_between_characters(store: RegionStore) -> None:
    claim = await claimed(store)
    await store.progress([Progress(claim, 0.5, "x" + "\N{SNOWMAN}" * 1_000)])
    assert (await shown(store, claim.task_id))[1] == "x" + "\N{SNOWMAN}" * 341


async def test_whoever_lost_the_task_says_nothing(store: RegionStore, raw: Any) -> None:
    task = await stored(store)
    old = await claimed(store, task)
    await store.release([Release(old)])
    before = snapshot(raw)
    (answer,) = await store.progress([Progress(old, 0.9)])
    assert answer == Settled(task.task_id, lost=True, state="PENDING")
    assert snapshot(raw) == before


async def test_the_next_attempt_begins_at_nothing(store: RegionStore) -> None:
    task = await stored(store)
    claim = await claimed(store, task)
    await store.progress([Progress(claim, 0.5, "half")])
    await store.retry([RetryAt(claim, 0, FAILURE)])
    assert await shown(store, task.task_id) == (0.0, "")
    (claim,) = (await claim_batch(store, lease_ms=0)).claims
    await store.progress([Progress(claim, 0.5, "half")])
    await store.reap(PLACE, limit=1)
    assert await shown(store, task.task_id) == (0.0, "")
    claim = await claimed(store, task)
    await store.progress([Progress(claim, 0.5, "half")])
    await store.release([Release(claim)])
    assert await shown(store, task.task_id) == (0.0, "")
    claim = await claimed(store, task)
    await store.progress([Progress(claim, 1.0, "all")])
    await store.finish([Finish(claim, b"", "", DAY_MS)])
    assert await shown(store, task.task_id) == (1.0, "all")


async def test_a_redriven_task_begins_at_nothing(store: RegionStore, raw: Any) -> None:
    record = await dead(store)
    raw.hset(KEYS.task(record.task_id), mapping={"pf": "0.5", "pn": "half"})
    await store.redrive(record.task_id, 1)
    assert await shown(store, record.task_id) == (0.0, "")


async def test_many_are_told_in_one_call(store: RegionStore) -> None:
    for _ in range(3):
        await stored(store)
    claims = (await claim_batch(store)).claims
    await store.progress([Progress(claim, n / 4) for n, claim in enumerate(claims)])
    assert [(await shown(store, c.task_id))[0] for c in claims] == [0.0, 0.25, 0.5]
