"""One interleaving, from the task's submit to when nobody has anything left to do."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.machine.dump import Dump
from tests.moves.intruders import Intruders
from tests.moves.matrix import ALONE, BACK, LONG, WELL, Case, Fault, Route
from tests.moves.wire import Killed, Send, Surroundings, Wire
from tests.moves.world import FAR, FENCE, HERE, READY_MS, REGIONS, THERE, World
from tests.scripts.world import PLACE
from tradewind.errors import StoreError
from tradewind.limits import MOVE_AGAIN_MS, UNSETTLED_IMPORT_MS
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from worker.courier import Courier
from worker.couriers.imports import Imports

COURIER_LEASE_MS, ROUND_MS = 5_000, 11_000  # a successor comes; and looks again
LONG_MS = 1_800_000  # after that no memory of a move is left
ROUNDS = 8  # at most, until nothing changes any more
WAITING = {State.PENDING, State.SCHEDULED, State.FAILED}
# Where somebody works, besides the region that is left.
WORKING: Mapping[Route, Sequence[str]] = {
    "carried": (THERE,),
    "elsewhere": (THERE, FAR),
    "again": (THERE,),
    "kept": (),
    "left": (THERE,),
}


@dataclass(frozen=True, slots=True)
class Shift:
    """One courier, and what lies between it and the regions."""

    stores: Mapping[str, RegionStore]
    wire: Wire


class Play(Surroundings):
    """What happens in a case, and what came of it."""

    def __init__(self, world: World, case: Case) -> None:
        """Nothing has happened yet."""
        self.world, self.case = world, case
        self.runs = 0  # of the task, in any region
        self.is_full = case.route in {"elsewhere", "again"}
        self._waited_for = case.gap if case.intruder != ALONE else ""
        self._closes = case.closed
        self.was_reached = False  # the step, by the first courier
        self.has_closed = False  # the first target has left the fence
        self.came_back = ""  # from there

    async def play(self) -> None:
        """Raises AssertionError, by an intruder that was given a wrong answer."""
        world, case = self.world, self.case
        await world.anew()
        self.submitted = await world.submitted(
            case.matter,
            by_key=case.intruder != "same request",
            expires=case.intruder == "expiry",
            fence=FENCE if case.closed else (),
        )
        self.intruders = Intruders(world, self.submitted)
        first = self._shift("first", world.first, case.fault)
        second = self._shift("second", world.second, case.second)
        later = self._shift("later", world.later, WELL)
        await world.advance(READY_MS - world.passed_ms)
        await world.work_in(*WORKING[case.route])
        await self._in_turn([first, *([second] if case.second != WELL else []), later])
        self.was_reached = first.wire.has_failed
        await self.quiet()
        if case.route == "kept":
            await world.work_in(THERE)
            await self.quiet()
        await self.comes("in the end")
        await self.quiet()  # a courier that has seen nothing of it: the one before looks seldom
        await self.forget_imports()

    def _shift(self, who: str, stores: Mapping[str, RegionStore], fault: Fault) -> Shift:
        wire = self.world.wire(who, stores, self)
        wire.fault = fault
        return Shift(stores, wire)

    async def _in_turn(self, shifts: Sequence[Shift]) -> None:
        """The first of them works, and those after it where it cannot, to the end."""
        one, *others = shifts
        if not others:
            await self.quiet()
            return
        wire = one.wire
        if not wire.has_failed and not wire.is_dead:
            under_way = asyncio.create_task(self._first(one))
            try:
                await self._until_it_fails(under_way, wire)
                await self.comes("after the fault")
                if wire.sleeps:
                    await self._meanwhile(others, wire.fault.lasts)
                    await self.comes("before it wakes")
                    wire.wake.set()
                with contextlib.suppress(Killed):
                    await under_way
            finally:
                under_way.cancel()
            if self.world.out:
                await self._meanwhile(others, LONG)
                self.world.out.clear()
                await self.comes("before it wakes")
            await self.world.advance(COURIER_LEASE_MS)
        await self._in_turn(others)

    async def _first(self, one: Shift) -> None:
        """It goes on after what it is told of, as its process would."""
        courier = self.world.courier(one.stores)
        if one.stores is not self.world.first:
            await self.quiet(courier)
            return
        for _ in range(2):
            try:
                await courier.work(PLACE)
            except StoreError as error:
                self.world.told.append(f"first: {type(error).__name__}")
            if one.wire.asleep.is_set():
                return  # nothing is read anew
            await self.world.advance(ROUND_MS // 4)

    async def _until_it_fails(self, under_way: "asyncio.Task[None]", wire: Wire) -> None:
        sleep = asyncio.create_task(wire.asleep.wait())
        await asyncio.wait({under_way, sleep}, return_when=asyncio.FIRST_COMPLETED)
        sleep.cancel()

    async def _meanwhile(self, others: Sequence[Shift], lasts: str) -> None:
        """Its successors do all that is to be done; after long the task has run, too."""
        await self.world.advance(COURIER_LEASE_MS)
        await self._in_turn(others)
        if lasts == BACK:
            await self._comes_back()
        if lasts == LONG:
            self.runs += await self.world.run_all()
            await self.world.advance(LONG_MS)
            await self.world.advance(LONG_MS)
            await self.quiet()
            await self.forget_imports()
        self.has_room_again()

    async def _comes_back(self) -> None:
        """It returns from where it is, and leaves once more; that courier has just begun."""
        world, task_id = self.world, self.submitted.task_id
        found = {name: one.records.get(task_id) for name, one in world.look().items()}
        owners = [name for name, seen in found.items() if seen and seen["s"] in WAITING]
        if self.came_back or owners in ([], [HERE]):
            return
        self.came_back = owners[0]
        self.has_room_again()
        await world.advance(MOVE_AGAIN_MS)
        world.evacuate(owners[0])
        await world.work_in(HERE)
        await self.quiet(world.courier(world.plain, owners[0]))
        await world.advance(MOVE_AGAIN_MS)
        world.evacuate(HERE)
        await world.work_in(*WORKING[self.case.route])
        world.wire("once more", world.plain, Surroundings()).fault = Fault(
            "begin_export", "killed after"
        )
        with contextlib.suppress(Killed):
            await world.courier(world.plain).work(PLACE)
        world.wire("others", world.plain, Surroundings())

    async def quiet(self, courier: Courier | None = None) -> None:
        """Successors work until nothing changes."""
        courier = courier or self.world.courier(self.world.later)
        await self.world.advance(ROUND_MS // 4)  # it has seen that nobody serves here
        before = None
        for _ in range(ROUNDS):
            try:
                await courier.work(PLACE)
            except StoreError as error:
                self.world.told.append(f"later: {type(error).__name__}")
            now = {name: _moved(seen) for name, seen in self.world.look().items()}
            if now == before:
                return
            before = now
            await self.world.advance(ROUND_MS)

    async def forget_imports(self) -> None:
        """What no courier has settled, regions settle themselves, after a while."""
        world = self.world
        if not any("imports" in one.keys for one in world.look().values()):
            return
        await world.advance(UNSETTLED_IMPORT_MS + 1_000)
        for name in (name for name in REGIONS if name not in world.out):
            others = {other: world.later[other] for other in REGIONS if other != name}
            await Imports(world.later[name], world.fleet, others).settle(PLACE)

    # --- what the wires ask for

    async def reached(self, step: str) -> None:
        """Whoever takes it first."""
        await self.comes(f"before {step}")

    async def comes(self, gap: str) -> None:
        """The intruder, if this is its moment; and the new policy."""
        if self._closes == gap:
            self._closes, self.has_closed = "", True
            self.world.close_target()
        if self._waited_for == gap:
            self._waited_for = ""
            await self.intruders.come(self.case.intruder)

    async def carried_out(self, region: str, step: str, send: Send) -> Any:
        """The first target has no memory left once the first import comes: Redis itself refuses."""
        if step == "import_task" and region == THERE and self.is_full:
            self.world.fill(region)
        reply = await send()
        if step == "abort_export" and self.case.route == "again" and reply[0] == "ok":
            self.has_room_again()
        return reply

    def has_room_again(self) -> None:
        """So that whoever comes late could store something."""
        self.is_full = False
        self.world.empty(THERE)

    def remember(self, region: str) -> Callable[[], None]:
        """Before a step."""
        return self.world.remember(region)


def _moved(seen: Dump) -> object:
    """What moves change in a region."""
    records = {(i, f["s"], f["ep"], f.get("mt")) for i, f in seen.records.items()}
    return records, seen.keys.get("imports")
