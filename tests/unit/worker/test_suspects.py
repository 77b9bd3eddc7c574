"""Places for suspects: two at most, and a last chance has no neighbour."""

import asyncio
from dataclasses import replace

import pytest

from tests.unit.worker.jobs import claim
from tradewind.fleet import Fleet, QueuePolicy
from tradewind.task import Claim
from worker.suspects import Suspects

FLEET = Fleet(regions={}, default_queue=QueuePolicy(max_crashes=3))


def suspect(task_id: str, crashes: int) -> Claim:
    """`crashes` with the one that is booked for the run that the claim stands for."""
    return replace(claim(b""), task_id=task_id, crashes=crashes, suspect=True)


SECOND, OTHER, THIRD, LAST = (
    suspect("second", 2),
    suspect("other", 2),
    suspect("third", 2),
    suspect("last", 3),
)


async def test_two_at_most() -> None:
    suspects = Suspects(FLEET)
    assert suspects.free == 2
    assert suspects.admit(SECOND)
    assert suspects.free == 1
    assert suspects.admit(OTHER)
    assert suspects.free == 0
    assert not suspects.admit(THIRD)
    suspects.leave(OTHER)
    assert (suspects.free, len(suspects)) == (1, 1)


async def test_beside_a_last_chance_nobody_is_asked_for_or_let_in() -> None:
    suspects = Suspects(FLEET)
    assert suspects.admit(LAST)
    assert suspects.free == 0
    assert not suspects.admit(SECOND)
    suspects.leave(LAST)
    assert suspects.free == 2


async def test_a_last_chance_waits_until_it_is_alone_and_is_not_overtaken() -> None:
    suspects = Suspects(FLEET)
    assert suspects.admit(SECOND)
    assert not suspects.admit(LAST)
    assert suspects.free == 0, "or its place is taken for ever"
    suspects.leave(SECOND)
    assert suspects.free == 1, "so that it does not come with a neighbour"
    assert suspects.admit(LAST)
    suspects.leave(LAST)
    assert suspects.free == 2


async def test_nobody_starts_before_the_crash_of_a_returned_one_is_taken_back() -> None:
    suspects = Suspects(FLEET)
    await suspects.quiet()
    suspects.returned(LAST)
    quiet = asyncio.create_task(suspects.quiet())
    await asyncio.sleep(0)
    assert not quiet.done()
    suspects.settled(SECOND)
    await asyncio.sleep(0)
    assert not quiet.done()
    suspects.settled(LAST)
    await quiet


async def test_a_store_that_does_not_answer_holds_them_up_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.suspects._QUIET_TIMEOUT_S", 0.01)
    suspects = Suspects(FLEET)
    suspects.returned(LAST)
    await suspects.quiet()
    await suspects.quiet()
