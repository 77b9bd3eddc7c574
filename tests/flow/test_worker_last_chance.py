"""A poison task's last run is alone for a while, and then waits for nobody."""

import time
from pathlib import Path

import pytest

from tests.flow.lab import Lab
from tradewind.state import State
from tradewind.task import Crash

APP = Path(__file__).with_name("isolated_app.py")
PLACE = 0
LONG = 60


async def suspect(lab: Lab, name: str, arguments: dict[str, float], *, crashes: int) -> str:
    """A task that has taken so many processes along; in front of those that were made before."""
    task_id = await lab.submit(name, arguments, partition=PLACE)
    store = lab.stores["eu-west"]
    for crash in range(crashes):
        batch = await store.claim(
            PLACE,
            worker_id="w",
            lease_ms={"default": 60_000},
            handlers=[name],
            limit=int(crash == 0),
            suspects=int(crash > 0),
        )
        (claim,) = batch.claims
        assert claim.task_id == task_id
        await store.crashed([Crash(claim, "as asked", 3_600_000, may_move=False)])
    return task_id


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(0, id="one runs long"),
        pytest.param(LONG, id="two run long", marks=pytest.mark.long),
    ],
)
async def test_beside_what_runs_long_it_is_dead_soon_and_holds_up_nobody(
    lab: Lab, seconds: int
) -> None:
    other = await suspect(lab, "sleep", {"seconds": seconds}, crashes=1)
    poison = await suspect(lab, "kill.itself", {}, crashes=2)
    long = await suspect(lab, "sleep", {"seconds": LONG}, crashes=1)
    running = await lab.worker("eu-west", "--app", f"{APP}:app")
    await lab.begun(long)
    began_s = time.monotonic()
    await lab.begun(other)
    if seconds == 0:
        assert (await lab.ended(other)).state is State.COMPLETED
    assert lab.lines(poison, "start") == [], "it would be blamed for, or by, one that runs"
    record = await lab.ended(poison)
    assert (record.state, record.death, record.crashes) == (State.DEAD_LETTER, "crashed", 3)
    assert len(lab.lines(poison, "start")) == 1
    assert lab.lines(long, "done") == []
    assert time.monotonic() - began_s < LONG
    assert running.poll() is None
    beside = await lab.record(long)
    assert beside is not None
    assert (beside.state, beside.crashes) == (State.PROCESSING, 1)
