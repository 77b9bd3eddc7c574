"""Case C03: a healthy task longer than its lease is never handed to a second worker."""

from collections.abc import Callable

import pytest

from tests.cases.scale import Scale, short_and_full
from tests.flow.lab import Lab
from tradewind.state import State


@short_and_full(5)
@pytest.mark.parametrize(
    "crowd",
    [
        pytest.param(False, id="alone"),
        pytest.param(True, id="many at once", marks=pytest.mark.long),
    ],
)
async def test_c03_a_healthy_long_task_stays_with_its_worker(
    make_lab: Callable[..., Lab], scale: Scale, crowd: bool
) -> None:
    lab = make_lab(scale.queue)
    lab.patience_s = 100
    tasks = (50 if scale.full else 12) if crowd else 1
    for _ in range(3):
        await lab.worker("eu-west", "--concurrency", "20")
    seconds = (6 if scale.full else 4) * scale.lease_s
    ids = [await lab.submit("sleep", {"seconds": seconds}) for _ in range(tasks)]
    records = [await lab.ended(task_id) for task_id in ids]
    assert {(r.state, r.attempts, r.crashes) for r in records} == {(State.COMPLETED, 1, 0)}
    events = [[line.event for line in lab.lines(task_id)] for task_id in ids]
    assert events == [["start", "done"]] * tasks
