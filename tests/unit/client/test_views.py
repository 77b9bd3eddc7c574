"""What a client makes of a task as a router tells it."""

from datetime import UTC, datetime, timedelta

import pytest

from tradewind.client.views import task_of
from tradewind.v1 import task_pb2

CREATED = datetime(2026, 11, 30, 22, 0, tzinfo=UTC)
DEAD, DONE = task_pb2.TASK_STATE_DEAD_LETTER, task_pb2.TASK_STATE_COMPLETED


def after(minutes: float) -> datetime:
    return CREATED + timedelta(minutes=minutes)


# State, attempts and end of a task that came 10 min after it was created; until when it stays.
ENDS: dict[str, tuple[task_pb2.TaskState, int, float, datetime | None]] = {
    "it ran here": (DONE, 1, 12, after(12)),
    "it died here": (DEAD, 3, 12, after(12)),
    "it came as the dead letter it was": (DEAD, 0, 5, None),
    "the clock here is behind": (DONE, 1, 9.9, after(10)),
}


@pytest.mark.parametrize(("state", "attempts", "finished", "ended"), ENDS.values(), ids=ENDS)
def test_no_stay_ends_before_it_began(
    state: task_pb2.TaskState, attempts: int, finished: float, ended: datetime | None
) -> None:
    task = task_pb2.Task(state=state)
    task.created_at.FromDatetime(CREATED)
    task.finished_at.FromDatetime(after(finished))
    for region, tried in (("lon", 2), ("par", attempts)):
        hop = task.hops.add(region=region, state=DEAD if region == "lon" else state, attempts=tried)
        hop.at.FromDatetime(after(10))
    first, present = task_of(task).hops
    assert (first.began_at, first.ended_at) == (CREATED, after(10))
    assert (present.began_at, present.ended_at) == (after(10), ended)
