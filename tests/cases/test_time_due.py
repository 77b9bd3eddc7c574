"""Case C32: what is due starts, whatever lies in front of it and however much came due at once."""

import asyncio
import time
from collections import Counter, defaultdict

import pytest

from tests.cases.bulk import Wanted, started, store_all
from tests.cases.redises import due_times, log_slow_calls, server, slow_calls
from tests.flow.lab import Lab
from tradewind import ids
from tradewind.limits import DAY_MS, SECOND_MS
from tradewind.task import Priority

FULL = [pytest.mark.long, pytest.mark.timeout(600)]
LONGEST_CALL_MS = 100  # the case's own bounds, from here on
LATE_S = 2.0


@pytest.mark.parametrize(
    ("far", "delay_s", "full"),
    [
        pytest.param(2_000, 0.5, False, id="short"),
        pytest.param(100_000, 5.0, True, id="full", marks=FULL),
    ],
)
async def test_c32_far_future_tasks_cost_a_due_one_nothing(
    lab: Lab, far: int, delay_s: float, full: bool
) -> None:
    await lab.worker("eu-west", "--concurrency", "2")
    log_slow_calls(lab, LONGEST_CALL_MS)
    await store_all(lab, [Wanted("sleep", {"seconds": 0}, delay_ms=DAY_MS + n) for n in range(far)])
    before_s = time.monotonic()
    due = [Wanted("sleep", {"seconds": 0}, delay_ms=round(delay_s * SECOND_MS))] * 10
    task_ids = await store_all(lab, due)
    stored_s = time.monotonic()

    starts = await started(lab, task_ids)

    assert set(starts) == set(task_ids), "none of the far ones"
    assert all(line.at >= before_s + delay_s for line in starts.values()), "never early"
    if full:
        late_s = max(line.at for line in starts.values()) - stored_s - delay_s
        assert late_s < LATE_S
        assert slow_calls(lab) == []


@pytest.mark.parametrize(
    ("tasks", "places", "down_s", "slots", "full"),
    [
        pytest.param(600, 2, 0.0, 1, False, id="short"),
        pytest.param(50_000, 16, 120.0, 16, True, id="full", marks=FULL),
    ],
)
async def test_c32_a_backlog_that_came_due_at_once_starts_high_first(
    lab: Lab, tasks: int, places: int, down_s: float, slots: int, full: bool
) -> None:
    lab.patience_s = 400 if full else lab.patience_s
    log_slow_calls(lab, LONGEST_CALL_MS)
    # Low ones are due first: whoever goes by due time alone makes the high ones wait.
    classes = [Priority.LOW, Priority.NORMAL, Priority.HIGH]
    wanted = [
        Wanted(
            "sleep",
            {"seconds": 0},
            priority=classes[n * 3 // tasks],
            delay_ms=1 + n // 100,
            partition=n % places,  # each holds more than any call makes ready
        )
        for n in range(tasks)
    ]
    task_ids = await store_all(lab, wanted)
    due_ms = due_times(lab)
    await asyncio.sleep(down_s)  # workers are down, and everything comes due
    await all_are_due(lab)

    await lab.worker("eu-west", "--concurrency", str(slots))
    alive_s = time.monotonic()
    starts = await started(lab, task_ids)

    assert Counter(line.task_id for line in lab.lines(event="start")) == Counter(task_ids)
    of = dict(zip(task_ids, (one.priority for one in wanted), strict=True))
    in_order = sorted(task_ids, key=lambda task_id: starts[task_id].at)
    if full:
        high = [task_id for task_id in task_ids if of[task_id] is Priority.HIGH]
        first = in_order[: len(high)]
        assert sum(of[task_id] is Priority.HIGH for task_id in first) > 0.9 * len(high)
        assert starts[in_order[0]].at < alive_s + LATE_S
        assert slow_calls(lab) == []
    else:  # one slot: the order is exact in each partition
        by_place: dict[int, list[str]] = defaultdict(list)
        for task_id in in_order:
            by_place[ids.parse(task_id).partition].append(task_id)
        for order in by_place.values():
            assert order == sorted(
                order, key=lambda task_id: (of[task_id], due_ms[task_id], task_id)
            )


async def all_are_due(lab: Lab) -> None:
    latest_ms = max(due_times(lab).values())

    async def is_past() -> bool:
        with server(lab) as raw:
            seconds, micros = raw.time()
            return seconds * 1_000 + micros // 1_000 > latest_ms

    await lab.until(is_past)
