"""For how long an entry stands, and what it points to."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.redis_keys import connected
from tests.rpc import labour
from tests.rpc.ledgers import elsewhere, identity_of
from tests.rpc.running import Running, running
from tradewind import ids
from tradewind.attempts.settle import Success, Terms, settle
from tradewind.clock import SystemClock
from tradewind.fleet import Dedup, Fleet, QueuePolicy, Retention
from tradewind.ids import partition_of
from tradewind.limits import DAY_MS, HOUR_MS, REQUEST_ID_WINDOW_MS, SECOND_MS
from tradewind.store.keys import partition_keys
from tradewind.task import Claim, Finish

# A test takes milliseconds; this much of a time to live may be gone before it is read.
SLACK_MS = 30 * SECOND_MS
DELAY_MS = 3 * HOUR_MS


def raw(fleet: Fleet, region: str) -> Any:
    node, *_ = fleet.regions[region].redis.nodes
    return connected(int(node.rpartition(":")[2]))


def entry_ttl_ms(fleet: Fleet, home: str, task_id: str, fields: Mapping[str, Any]) -> int:
    mark = identity_of(fleet, **fields).mark
    assert mark is not None
    place = ids.parse(task_id).partition
    if mark.business:
        place = partition_of(mark.key, fleet.partitions)
    ttl: int = raw(fleet, home).pttl(partition_keys(fleet.partitions)[place].entry(mark.key))
    return ttl


def record_ttl_ms(fleet: Fleet, region: str, task_id: str) -> int:
    keys = partition_keys(fleet.partitions)[ids.parse(task_id).partition]
    ttl: int = raw(fleet, region).pttl(keys.task(task_id))
    return ttl


def about(ttl_ms: int) -> Any:
    return pytest.approx(ttl_ms - SLACK_MS / 2, abs=SLACK_MS / 2)


def ahead(ms: int) -> datetime:
    return datetime.fromtimestamp((SystemClock().now_ms() + ms) / 1000, UTC)


STARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "after a delay": lambda: {"delay": timedelta(milliseconds=DELAY_MS)},
    "at an instant": lambda: {"not_before": ahead(DELAY_MS)},
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
async def test_the_window_counts_from_when_the_task_may_first_start(
    serving: Running, start: Callable[[], dict[str, Any]]
) -> None:
    key = await serving.key_at("eu-west", pin_region="eu-west")
    together: dict[str, Any] = {"idempotency_key": key, "pin_region": "eu-west"}
    apart = await elsewhere(serving)
    by_request: dict[str, Any] = {"request_id": "r", "origin_region": "eu-west"}
    for fields, home, window_ms in (
        (together, "eu-west", DAY_MS),
        (apart, "us-east", DAY_MS),
        (by_request, "eu-west", REQUEST_ID_WINDOW_MS),
    ):
        receipt = await serving.submit(**fields, **start())
        ttl_ms = entry_ttl_ms(serving.fleet, home, receipt.task_id, fields)
        assert ttl_ms == about(window_ms + DELAY_MS)


@pytest.fixture
def brief(fleet: Fleet) -> Fleet:
    """Tasks are forgotten at once, keys are not."""
    retention = Retention(completed_ms=1, dead_ms=1)
    return replace(fleet, default_queue=QueuePolicy(retention=retention))


BY_KEY = Terms(attempts=1, timeout_ms=1_000, deduplicated=True)
BY_REQUEST = Terms(attempts=1, timeout_ms=1_000, by_request=True)


def finished(held: Claim, fleet: Fleet, terms: Terms) -> Finish:
    """What a worker reports."""
    policy = fleet.queue("default")
    end = settle(held, Success(b"1", "application/json"), policy, terms, jitter=0.0)
    assert isinstance(end, Finish)
    return end


async def test_a_finished_task_is_kept_for_as_long_as_its_key(brief: Fleet) -> None:
    async with running(brief) as serving:
        first = await serving.submit(idempotency_key="k", pin_region="eu-west")
        store = serving.stores["eu-west"]
        held = await labour.claim(store, first.task_id)
        await store.real.finish([finished(held, brief, BY_KEY)])

        again = await serving.submit(idempotency_key="k", pin_region="eu-west")

        assert (again.task_id, again.duplicate) == (first.task_id, True)
        assert record_ttl_ms(brief, "eu-west", first.task_id) == about(DAY_MS)


async def test_a_finished_task_is_kept_for_as_long_as_repeats_of_its_submit_may_come(
    brief: Fleet,
) -> None:
    fields: dict[str, Any] = {"request_id": "r", "origin_region": "eu-west"}
    async with running(brief) as serving:
        first = await serving.submit(**fields)
        store = serving.stores["eu-west"]
        held = await labour.claim(store, first.task_id)
        await store.real.finish([finished(held, brief, BY_REQUEST)])

        again = await serving.submit(**fields)

        assert (again.task_id, again.duplicate) == (first.task_id, False)
        kept_ms = record_ttl_ms(brief, "eu-west", first.task_id)
        assert kept_ms == about(REQUEST_ID_WINDOW_MS)


@pytest.mark.parametrize("by", ["idempotency_key", "request_id"])
async def test_an_expired_task_is_kept_for_as_long_as_its_entry(brief: Fleet, by: str) -> None:
    fields: dict[str, Any] = {by: "k", "pin_region": "eu-west", "origin_region": "eu-west"}
    async with running(brief) as serving:
        first = await serving.submit(expires_at=ahead(200), **fields)
        place = ids.parse(first.task_id).partition
        store = serving.stores["eu-west"].real
        sweep = {"worker_id": "w", "queues": ["default"], "courier": False}
        while not (await store.sweep(place, **sweep)).expired:  # type: ignore[arg-type]
            pass

        window_ms = DAY_MS if by == "idempotency_key" else REQUEST_ID_WINDOW_MS
        assert record_ttl_ms(brief, "eu-west", first.task_id) == about(window_ms)


async def test_once_the_window_is_over_the_key_is_a_new_task_that_is_run(fleet: Fleet) -> None:
    # The record of the first, kept for longer, must not stop it: it is no copy.
    policy = QueuePolicy(
        dedup=Dedup(window_ms=SECOND_MS), retention=Retention(completed_ms=DAY_MS, dead_ms=DAY_MS)
    )
    short = replace(fleet, default_queue=policy)
    async with running(short) as serving:
        fields: dict[str, Any] = {"idempotency_key": "k", "pin_region": "eu-west"}
        first = await serving.submit(**fields)
        store = serving.stores["eu-west"]
        held = await labour.claim(store, first.task_id)
        await store.real.finish([finished(held, short, BY_KEY)])

        while (second := await serving.submit(**fields)).duplicate:
            assert second.task_id == first.task_id
        held = await labour.claim(store, second.task_id)

        assert held.task_id == second.task_id != first.task_id
        assert record_ttl_ms(short, "eu-west", first.task_id) == about(DAY_MS)


async def test_a_key_under_another_fence_is_not_stopped_by_what_was_done_under_the_first(
    serving: Running,
) -> None:
    # Equal affinity: both lie in one partition, where a done mark of the first could be found.
    fields: dict[str, Any] = {"idempotency_key": "k", "affinity_key": "a", "pin_region": "eu-west"}
    store = serving.stores["eu-west"]
    free = await serving.submit(**fields)
    await labour.finish(store, await labour.claim(store, free.task_id))
    fenced = await serving.submit(**fields, residency=["eu"])

    held = await labour.claim(store, fenced.task_id)

    assert (fenced.duplicate, held.task_id) == (False, fenced.task_id)
