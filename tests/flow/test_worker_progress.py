import pytest

from tests.flow.lab import Lab
from tradewind.state import State


@pytest.mark.parametrize("name", ["report.async", "report.plain"])
async def test_the_newest_progress_is_seen_while_it_runs_and_the_last_one_afterwards(
    lab: Lab, name: str
) -> None:
    await lab.worker()
    task_id = await lab.submit(name, {"reports": 5_000, "seconds": 2.0})

    async def is_seen() -> bool:
        record = await lab.record(task_id)
        return record is not None and record.progress_note == "step 4999"

    await lab.until(is_seen)
    running = await lab.record(task_id)
    assert running is not None
    assert (running.state, running.progress) == (State.PROCESSING, 0.9998)
    ended = await lab.settled(task_id)
    assert (ended.state, ended.progress, ended.progress_note) == (
        State.COMPLETED,
        1.0,
        r"done \udcff",
    )
    # Claim, finish, and at most a report every 250 ms of the second or so that it took: not 5,001.
    assert ended.revision < 50
