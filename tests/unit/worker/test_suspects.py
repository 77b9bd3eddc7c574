"""Places for suspects: two at most, and a last chance has no neighbour for a while."""

import asyncio
from dataclasses import dataclass, field

import pytest

from tests.harness.patience import until
from tests.unit.worker.jobs import claim
from tradewind.clock import ManualClock
from tradewind.fleet import Fleet, QueuePolicy
from tradewind.task import Claim
from worker.suspects import Suspects

LEASE_MS = 30_000
FLEET = Fleet(
    regions={},
    default_queue=QueuePolicy(max_crashes=3, lease_ms=LEASE_MS),
    queues={"quick": QueuePolicy(max_crashes=3, lease_ms=1_000)},
)
PAUSE_MS = 2_000
PLACE = 5


def suspect(task_id: str, crashes: int) -> Claim:
    """`crashes` with the one that is booked for the run that the claim stands for."""
    return claim(b"")._replace(
        task_id=task_id, crashes=crashes, suspect=True, partition=PLACE, token=crashes
    )


SECOND, OTHER, THIRD, LAST = (
    suspect("second", 2),
    suspect("other", 2),
    suspect("third", 2),
    suspect("last", 3),
)


@dataclass
class Ward:
    """Suspects under a clock that stands still."""

    fleet: Fleet = FLEET
    clock: ManualClock = field(default_factory=ManualClock)
    due: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    changes: int = 0

    def __post_init__(self) -> None:
        self.suspects = Suspects(
            self.fleet,
            self.clock,
            on_change=self.change,
            on_due=lambda partition, in_ms: self.due.append((partition, in_ms)),
        )

    def change(self) -> None:
        self.changes += 1

    def refused_until(self, claim: Claim, limit_ms: int) -> int:
        """For how long the claim is handed back, asked for again as soon as there is room."""
        waited_ms = 0
        while not (self.suspects.free and self.suspects.admit(claim)):
            assert waited_ms <= limit_ms
            self.clock.advance(500)
            waited_ms += 500
        return waited_ms


@pytest.fixture
async def ward() -> Ward:
    return Ward()


@pytest.fixture
def suspects(ward: Ward) -> Suspects:
    return ward.suspects


async def test_two_at_most(suspects: Suspects) -> None:
    assert suspects.free == 2
    assert suspects.admit(SECOND)
    assert suspects.free == 1
    assert suspects.admit(OTHER)
    assert suspects.free == 0
    assert not suspects.admit(THIRD)
    suspects.leave(OTHER)
    suspects.leave(SECOND)
    assert (suspects.free, len(suspects)) == (2, 0)


async def test_beside_a_last_chance_nobody_is_asked_for_or_let_in(suspects: Suspects) -> None:
    assert suspects.admit(LAST)
    assert suspects.free == 0
    assert not suspects.admit(SECOND)
    suspects.leave(LAST)
    assert suspects.free == 2


async def test_a_last_chance_runs_as_soon_as_it_is_alone(suspects: Suspects) -> None:
    assert suspects.admit(SECOND)
    assert not suspects.admit(LAST)
    suspects.leave(SECOND)
    assert suspects.free == 1, "so that it does not come with a neighbour"
    assert suspects.admit(LAST)
    suspects.leave(LAST)
    assert suspects.free == 2


@pytest.mark.parametrize(("queue", "longest_ms"), [("default", LEASE_MS), ("quick", 10_000)])
async def test_a_last_chance_waits_for_a_neighbour_for_a_lease_at_most(
    ward: Ward, queue: str, longest_ms: int
) -> None:
    assert ward.suspects.admit(SECOND)
    last = LAST._replace(queue=queue)
    assert ward.refused_until(last, longest_ms + PAUSE_MS) >= longest_ms
    assert len(ward.suspects) == 2


@pytest.mark.parametrize(("queue", "longest_ms"), [("default", LEASE_MS), ("quick", 10_000)])
async def test_others_wait_for_a_last_chance_for_a_lease_at_most(
    ward: Ward, queue: str, longest_ms: int
) -> None:
    assert ward.suspects.admit(LAST._replace(queue=queue))
    assert ward.refused_until(SECOND, longest_ms) == longest_ms
    assert len(ward.suspects) == 2


async def test_nobody_queues_behind_a_last_chance_that_waits(
    ward: Ward, suspects: Suspects
) -> None:
    assert suspects.admit(SECOND)
    assert not suspects.admit(LAST)
    assert suspects.free == 0, "or it is asked for and handed back in a circle"
    ward.clock.advance(PAUSE_MS)
    assert (suspects.free, suspects.in_front(PLACE), suspects.in_front(PLACE + 1)) == (1, 1, 0)
    assert not suspects.admit(LAST)
    assert suspects.admit(OTHER)


async def test_a_last_chance_has_a_place_though_others_have_come_meanwhile(
    ward: Ward, suspects: Suspects
) -> None:
    assert suspects.admit(SECOND)
    assert not suspects.admit(LAST)
    assert suspects.admit(OTHER)
    ward.clock.advance(LEASE_MS - 1)
    assert suspects.free == 0
    assert not suspects.admit(LAST)
    ward.clock.advance(PAUSE_MS)
    assert suspects.free == 1
    assert not suspects.admit(THIRD), "it is nobody else's"
    ward.clock.advance(PAUSE_MS)
    assert suspects.admit(LAST)
    ward.clock.advance(2 * LEASE_MS)
    assert (suspects.free, len(suspects)) == (0, 3)
    assert not suspects.admit(suspect("another last one", 3))
    suspects.leave(SECOND)
    suspects.leave(OTHER)
    ward.clock.advance(PAUSE_MS)
    assert suspects.free == 1


async def test_a_last_chance_that_went_to_another_worker_keeps_no_place(
    ward: Ward, suspects: Suspects
) -> None:
    assert suspects.admit(SECOND)
    assert not suspects.admit(LAST)
    assert suspects.admit(OTHER)
    ward.clock.advance(LEASE_MS + 5 * PAUSE_MS)
    assert suspects.free == 1
    ward.clock.advance(1)
    assert (suspects.free, suspects.in_front(PLACE)) == (0, 0)
    suspects.leave(SECOND)
    suspects.leave(OTHER)
    assert suspects.free == 2


async def test_whoever_asks_is_woken_when_there_may_be_a_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.suspects._ALONE_MS", 20)
    monkeypatch.setattr("worker.suspects._PAUSE_MS", 10)
    ward = Ward(fleet=Fleet(regions={}, default_queue=QueuePolicy(max_crashes=3, lease_ms=20)))
    assert ward.suspects.admit(SECOND)
    assert not ward.suspects.admit(LAST)
    await until(lambda: ward.changes > 0, "it may be looked at again")
    await until(lambda: ward.due != [], "it is due")
    assert ward.due == [(PLACE, 0)]
    ward.suspects.leave(SECOND)
    assert ward.suspects.admit(LAST)
    ward.changes = 0
    await until(lambda: ward.changes > 0, "it was alone for long enough")


async def test_nobody_starts_before_the_crash_of_a_returned_one_is_taken_back(
    suspects: Suspects,
) -> None:
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
    suspects: Suspects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.suspects._QUIET_TIMEOUT_S", 0.01)
    suspects.returned(LAST)
    await suspects.quiet()
    await suspects.quiet()
