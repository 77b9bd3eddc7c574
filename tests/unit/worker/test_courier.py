"""A courier that stood still with what it had read carries nothing twice."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from tests.scripts.world import DAY_MS, PLACE, claimed, dead, pointer_of
from tradewind.clock import ManualClock
from tradewind.fleet import Fleet, RedisTarget, Region
from tradewind.limits import IMPORT_MEMORY_MS, NOT_AFTER_MS
from tradewind.policy.relocate import Relocation
from tradewind.state import State
from tradewind.task import Exported, Finish, MoveReason, NewTask, Priority, Record
from tradewind.testing import MemoryStore
from worker.courier import Courier
from worker.views import Views

HERE, THERE = "eu-west", "us-east"
NOWHERE = RedisTarget("standalone", ("127.0.0.1:1",))
FLEET = Fleet(
    regions={name: Region(name, NOWHERE, ("eu",)) for name in (HERE, THERE)}, partitions=16
)
KEPT_MS = 1_000  # of the result: as short as a queue without dedup may have it


class Yard:
    """Two regions, and a courier of the first that stands still at a moment of its own."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.fleet = FLEET
        self.source, self.target = (
            MemoryStore(name, self.fleet, self.clock) for name in FLEET.regions
        )
        self.meanwhile: Callable[[str], Awaitable[None]] = self.nothing

    def courier(self, source: MemoryStore | None = None) -> Courier:
        views = Views(HERE, self.fleet, {}, self.clock)
        targets = {THERE: self.target}
        return Courier(source or self.source, self.fleet, targets, views, clock=self.clock)

    async def nothing(self, _task_id: str) -> None:
        """It does not stand still."""

    async def others_carry_it_to_its_end(self, task_id: str) -> None:
        """And all that the target knew of it is forgotten."""
        await self.courier().work(PLACE)
        assert (await pointer_of(self.source, task_id)).target == THERE
        claim = await claimed(self.target, NewTask(task_id, "mail", "send", Priority.NORMAL, b""))
        await self.target.finish([Finish(claim, b"", "", KEPT_MS)])
        self.clock.advance(IMPORT_MEMORY_MS)

    async def a_while_passes(self, _task_id: str) -> None:
        self.clock.advance(NOT_AFTER_MS)


class Slow(MemoryStore):
    """The source as a courier sees it that stands still as soon as it has read of a move."""

    def __init__(self, yard: Yard) -> None:
        super().__init__(HERE, yard.fleet, yard.clock)
        self.room, self._yard = yard.source.room, yard

    async def moving(
        self,
        partition: int,
        *,
        limit: int,
        offset: int = 0,
        groups: Sequence[str] | None = None,
    ) -> list[Exported]:
        found = await super().moving(partition, limit=limit)
        for exported in found:
            await self._yard.meanwhile(exported.record.task_id)
        return found

    async def begin_export(
        self,
        record: Record,
        target: str,
        *,
        groups: Sequence[str],
        reason: MoveReason | None = None,
    ) -> Exported | None:
        exported = await super().begin_export(record, target, groups=["eu"])
        await self._yard.meanwhile(record.task_id)
        return exported


def to_there(*_: object) -> Relocation:
    return Relocation(THERE, "", permanent=False)


@pytest.fixture
def yard(monkeypatch: pytest.MonkeyPatch) -> Yard:
    monkeypatch.setattr("worker.courier.choose", to_there)
    return Yard()


@pytest.mark.parametrize("begun", [True, False], ids=["found under way", "begun itself"])
async def test_what_others_have_carried_to_its_end_meanwhile_is_not_imported_again(
    yard: Yard, *, begun: bool
) -> None:
    record = await dead(yard.source)
    if begun:
        assert await yard.source.begin_export(record, THERE, groups=["eu"])
    yard.meanwhile = yard.others_carry_it_to_its_end
    await yard.courier(Slow(yard)).work(PLACE)
    assert await yard.target.read(record.task_id) is None
    assert await yard.target.counts() == {}
    yard.meanwhile = yard.nothing
    await yard.courier(Slow(yard)).work(PLACE)
    assert await yard.target.read(record.task_id) is None


@pytest.mark.parametrize("begun", [True, False], ids=["found under way", "begun itself"])
async def test_a_short_stop_holds_up_no_move(yard: Yard, *, begun: bool) -> None:
    record = await dead(yard.source)
    if begun:
        assert await yard.source.begin_export(record, THERE, groups=["eu"])
    yard.meanwhile = yard.a_while_passes
    await yard.courier(Slow(yard)).work(PLACE)
    found = await yard.target.read(record.task_id)
    assert isinstance(found, Record)
    assert found.state is State.PENDING


async def test_after_a_long_stop_the_next_pass_carries_what_nobody_has_carried(
    yard: Yard,
) -> None:
    record = await dead(yard.source)
    assert await yard.source.begin_export(record, THERE, groups=["eu"])

    async def long(_task_id: str) -> None:
        yard.clock.advance(DAY_MS)

    yard.meanwhile = long
    await yard.courier(Slow(yard)).work(PLACE)
    assert await yard.target.read(record.task_id) is None
    yard.meanwhile = yard.nothing
    await yard.courier(Slow(yard)).work(PLACE)
    assert isinstance(await yard.target.read(record.task_id), Record)
