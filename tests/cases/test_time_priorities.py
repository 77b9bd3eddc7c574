"""Case C34: lower priorities wait behind higher ones, but not for ever."""

import asyncio
import statistics
import time
from collections.abc import Callable

import pytest

from tests.cases.bulk import Wanted, started, store_all
from tests.flow.lab import Lab
from tradewind.task import Priority, QueueCounts

PLACE = 5  # all in one partition: priorities compete nowhere harder
SECONDS = 0.05  # of each task
BACKLOG = 10  # high ones that wait at any time
EACH = 20  # low and normal ones


@pytest.mark.parametrize(
    ("starvation_s", "busy_s", "full"),
    [
        pytest.param(1, 3.0, False, id="short"),
        pytest.param(
            20, 180.0, True, id="full", marks=[pytest.mark.long, pytest.mark.timeout(400)]
        ),
    ],
)
async def test_c34_low_ones_start_while_high_ones_keep_coming(
    make_lab: Callable[..., Lab], starvation_s: int, busy_s: float, full: bool
) -> None:
    lab = make_lab(f"{{lease: 1s, starvation_after: {starvation_s}s}}")
    store = lab.stores["eu-west"]
    stored_s: dict[str, float] = {}
    of: dict[str, Priority] = {}

    async def give(priority: Priority, number: int) -> None:
        task = Wanted("sleep", {"seconds": SECONDS}, priority=priority, partition=PLACE)
        at_s = time.monotonic()
        for task_id in await store_all(lab, [task] * number):
            stored_s[task_id], of[task_id] = at_s, priority

    await lab.worker("eu-west", "--concurrency", "2")
    await give(Priority.HIGH, BACKLOG)
    begun_s = time.monotonic()
    await give(Priority.NORMAL, EACH)
    await give(Priority.LOW, EACH)
    oldest_ms: dict[Priority, int] = {}
    lower = {task_id for task_id, priority in of.items() if priority is not Priority.HIGH}
    while True:
        counts = (await store.counts()).get("default", QueueCounts())
        waiting, *others = counts.pending
        await give(Priority.HIGH, max(0, BACKLOG - waiting))
        for (_, priority), age_ms in (await store.oldest()).items():
            oldest_ms[priority] = max(age_ms, oldest_ms.get(priority, 0))
        if not any(others) and time.monotonic() - begun_s > busy_s:
            break
        await asyncio.sleep(0.02)

    start_s = {task_id: line.at for task_id, line in (await started(lab, of)).items()}
    first_s = min(start_s[task_id] for task_id in lower)
    last_s = max(start_s[task_id] for task_id in lower)
    high = [task_id for task_id, priority in of.items() if priority is Priority.HIGH]
    assert any(start_s[id_] < first_s for id_ in high if stored_s[id_] >= begun_s), "high first"
    passed = [id_ for id_ in high if stored_s[id_] < last_s < start_s[id_]]
    assert passed, "high ones waited when the last lower one started"
    waits_s = {
        priority: statistics.median(
            start_s[id_] - stored_s[id_] for id_, its in of.items() if its is priority
        )
        for priority in Priority
    }
    assert waits_s[Priority.HIGH] < waits_s[Priority.NORMAL] <= waits_s[Priority.LOW] + SECONDS
    assert oldest_ms[Priority.LOW] >= starvation_s * 1_000, "and everybody could see it"
    if full:  # docs/lifecycle.md: the patience, then the line of those who waited as long
        line_s = 2 * EACH * SECONDS / 2
        longest_s = max(start_s[id_] - stored_s[id_] for id_ in lower)
        assert longest_s < starvation_s + 2 * line_s + 2.0
        assert first_s < begun_s + 60, "one in each minute in which some wait"
