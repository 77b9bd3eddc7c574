"""Cases C27 and C28: how long failed tasks wait, however often and however many at once."""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from tests.cases.bulk import Wanted, store_all
from tests.cases.redises import due_times, monotonic_zero_ms
from tests.flow.lab import Lab, Line
from tradewind.limits import SECOND_MS
from tradewind.state import State

# Redis tells the time in whole ms to scripts: a wait may seem shorter by as much.
GRAIN_S = 0.001


def by_attempt(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Starts of each task, first attempt first."""
    found: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        found[line.task_id].append(line)
    return found


@pytest.mark.parametrize(
    ("attempts", "full"),
    [
        pytest.param(61, False, id="short"),
        pytest.param(1_201, True, id="full", marks=[pytest.mark.long, pytest.mark.timeout(600)]),
    ],
)
async def test_c27_the_wait_stays_between_base_and_cap_however_often_it_fails(
    make_lab: Callable[..., Lab], attempts: int, full: bool
) -> None:
    base_ms, cap_ms = 1, 50
    lab = make_lab(
        f"{{lease: 1s, attempts: {attempts}, failover: {{on: []}}, "
        f"backoff: {{initial: {base_ms}ms, factor: 2, max: {cap_ms}ms}}}}"
    )
    lab.patience_s = 500 if full else lab.patience_s
    await lab.worker("eu-west", "--concurrency", "2")
    task_id = await lab.submit("fail.in", {"regions": ["eu-west"]})

    record = await lab.ended(task_id)

    assert (record.state, record.attempts) == (State.DEAD_LETTER, attempts)
    starts = lab.lines(task_id, "start")
    assert [line.attempt for line in starts] == list(range(1, attempts + 1))
    for number, (earlier, later) in enumerate(pairwise(starts), start=1):
        shortest_ms = min(base_ms * 2 ** min(number - 1, 60), cap_ms) / 2
        gap_s = later.at - earlier.at
        assert gap_s >= max(shortest_ms / SECOND_MS, GRAIN_S) - GRAIN_S, number
        if full:  # what the worker and the Redis need besides
            assert gap_s < cap_ms / SECOND_MS + 2.0, number
    assert not re.search(r"Traceback|OverflowError|failed at a task", lab.logs())


@pytest.mark.parametrize(
    ("tasks", "closed_s", "base_ms", "full"),
    [
        pytest.param(100, 2.5, 1_600, False, id="short"),
        pytest.param(
            1_000,
            30.0,
            16_000,
            True,
            id="full",
            marks=[pytest.mark.long, pytest.mark.timeout(600)],
        ),
    ],
)
async def test_c28_those_that_fail_together_do_not_come_back_together(
    make_lab: Callable[..., Lab], tasks: int, closed_s: float, base_ms: int, full: bool
) -> None:
    lab = make_lab(
        "{lease: 2s, attempts: 20, "
        f"backoff: {{initial: {base_ms}ms, factor: 2, max: {4 * base_ms}ms}}}}"
    )
    lab.patience_s = 300 if full else lab.patience_s
    await lab.worker("eu-west", "--concurrency", "64")
    ask_s = 0.9 * base_ms / SECOND_MS  # within the spread of the first wait: a floor for some
    opens_s = time.monotonic() + closed_s
    payload = {"opens_at": opens_s, "per_s": 100.0}
    ids = await store_all(
        lab,
        [Wanted("depends", {**payload, "ask_s": ask_s * (n % 2)}) for n in range(tasks)],
    )
    asked = dict(zip(ids, (n % 2 == 1 for n in range(tasks)), strict=True))

    first_waits = await waits_of_all(lab, ids)
    await all_done(lab, ids)

    starts = by_attempt(lab.lines(event="start"))
    zero_ms = monotonic_zero_ms(lab)
    retries: dict[int, list[float]] = defaultdict(list)
    for task_id, lines in starts.items():
        for earlier, later in pairwise(lines):
            grown_ms = min(base_ms * 2 ** (earlier.attempt - 1), 4 * base_ms)
            floor_s = max(grown_ms / 2 / SECOND_MS, ask_s * asked[task_id])
            assert later.at - earlier.at >= floor_s - GRAIN_S, "earlier than documented or asked"
            retries[later.attempt].append(later.at)
    # Due times, since a machine that stalls bunches the starts; the ledger judges the long run.
    for of in (True, False):
        due_ms = {id_: at for id_, at in first_waits.items() if asked[id_] is of}
        assert densest(list(due_ms.values()), base_ms / 16) < 0.5, "one wave"
        shortest_ms = ask_s * SECOND_MS if of else base_ms / 2
        waits_ms = [at - starts[id_][0].at * SECOND_MS - zero_ms for id_, at in due_ms.items()]
        long = [wait_ms for wait_ms in waits_ms if wait_ms > 1.2 * shortest_ms]
        assert len(long) > 0.2 * len(waits_ms), "by chance some wait for longer"
    if full:
        for attempt, at in retries.items():
            if len(at) >= 100:  # fewer say nothing about a share
                assert densest([s * SECOND_MS for s in at], SECOND_MS) <= 0.2, attempt
        ideal_s = closed_s + tasks / 100
        assert max(line.at for line in lab.lines(event="done")) < opens_s - closed_s + 4 * ideal_s


async def waits_of_all(lab: Lab, ids: Sequence[str]) -> dict[str, float]:
    """When each is due after its first failure, ms, seen while it waits."""
    found: dict[str, float] = {}

    async def all_were_seen() -> bool:
        for task_id, due_ms in due_times(lab).items():
            found.setdefault(task_id, due_ms)
        return len(found) >= 0.9 * len(ids)

    await lab.until(all_were_seen)
    return found


async def all_done(lab: Lab, ids: Sequence[str]) -> None:
    async def are_done() -> bool:
        return {line.task_id for line in lab.lines(event="done")}.issuperset(ids)

    await lab.until(are_done)
    for task_id in ids:
        assert (await lab.ended(task_id)).state is State.COMPLETED


def densest(at_ms: Sequence[float], window_ms: float) -> float:
    """The largest share of `at_ms` that any window of such a length holds."""
    ordered = sorted(at_ms)
    first, most = 0, 0
    for last, at in enumerate(ordered):
        while at - ordered[first] >= window_ms:
            first += 1
        most = max(most, last - first + 1)
    return most / len(ordered)
