"""One interleaving, from the task's submit to when nobody has anything left to do."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.machine.dump import Dump
from tests.moves.intruders import Intruders
from tests.moves.matrix import ALONE, Case, Route
from tests.moves.wire import Killed, Send, Surroundings, Wire
from tests.moves.world import FAR, READY_MS, REGIONS, THERE, World
from tests.scripts.world import PLACE
from tradewind.errors import StoreError
from tradewind.limits import UNSETTLED_IMPORT_MS
from worker.couriers.imports import Imports

COURIER_LEASE_MS, ROUND_MS = 5_000, 11_000  # a successor comes; and looks again
LONG_MS = 1_800_000  # after that no memory of a move is left
ROUNDS = 8  # at most, until nothing changes any more
# Where somebody works, besides the region that is left.
WORKING: Mapping[Route, Sequence[str]] = {
    "carried": (THERE,),
    "elsewhere": (THERE, FAR),
    "again": (THERE,),
    "kept": (),
}


class Play(Surroundings):
    """What happens in a case, and what came of it."""

    def __init__(self, world: World, case: Case) -> None:
        """Nothing has happened yet."""
        self.world, self.case = world, case
        self.runs = 0  # of the task, in any region
        self.is_full = case.route in {"elsewhere", "again"}
        self._waited_for = case.gap if case.intruder != ALONE else ""
        self.was_reached = False  # the step, by the first courier

    async def play(self) -> None:
        """Raises AssertionError, by an intruder that was given a wrong answer."""
        world, case = self.world, self.case
        await world.anew()
        by_key = case.intruder != "same request"
        self.submitted = await world.submitted(
            case.matter, by_key=by_key, expires=case.intruder == "expiry"
        )
        self.intruders = Intruders(world, self.submitted)
        first = world.courier(world.first)
        wire = world.wire("first", world.first, self)
        wire.step, wire.fault = case.step, case.fault
        world.wire("later", world.later, self)
        await world.advance(READY_MS - world.passed_ms)
        await world.work_in(*WORKING[case.route])
        under_way = asyncio.create_task(self._first(first))
        try:
            await self._until_it_fails(under_way, wire)
            self.was_reached = wire.has_failed
            await self.comes("after the fault")
            if wire.asleep.is_set():
                await self._meanwhile()
                wire.wake.set()
            with contextlib.suppress(Killed):
                await under_way
        finally:
            under_way.cancel()
        await self.quiet()
        if case.route == "kept":
            await world.work_in(THERE)
            await self.quiet()
        await self.comes("in the end")
        await self.quiet()  # a courier that has seen nothing of it: the one before looks seldom
        await self.forget_imports()

    async def _first(self, courier: Any) -> None:
        """It goes on after what it is told of, as its process would."""
        for _ in range(2):
            try:
                await courier.work(PLACE)
            except StoreError as error:
                self.world.told.append(f"first: {type(error).__name__}")
            if any("wakes up" in line for line in self.world.told):
                return  # nothing is read anew
            await self.world.advance(ROUND_MS // 4)

    async def _until_it_fails(self, under_way: "asyncio.Task[None]", wire: Wire) -> None:
        sleep = asyncio.create_task(wire.asleep.wait())
        await asyncio.wait({under_way, sleep}, return_when=asyncio.FIRST_COMPLETED)
        sleep.cancel()

    async def _meanwhile(self) -> None:
        """Its successor does all that is to be done; after long the task has run, too."""
        await self.world.advance(COURIER_LEASE_MS)
        await self.quiet()
        if self.case.sleep == "long":
            self.runs += await self.world.run_all()
            await self.world.advance(LONG_MS)
            await self.world.advance(LONG_MS)
            await self.quiet()
            await self.forget_imports()
        self.has_room_again()
        await self.comes("before it wakes")

    async def quiet(self) -> None:
        """Successors work until nothing changes."""
        courier = self.world.courier(self.world.later)
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
        for name in REGIONS:
            others = {other: world.later[other] for other in REGIONS if other != name}
            await Imports(world.later[name], world.fleet, others).settle(PLACE)

    # --- what the wires ask for

    async def reached(self, step: str) -> None:
        """Whoever takes it first."""
        await self.comes(f"before {step}")

    async def comes(self, gap: str) -> None:
        """The intruder, if this is its moment."""
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
        if self.case.fault.startswith("lost"):
            return self.world.remember(region)
        return lambda: None


def _moved(seen: Dump) -> object:
    """What moves change in a region."""
    records = {(i, f["s"], f["ep"], f.get("mt")) for i, f in seen.records.items()}
    return records, seen.keys.get("imports")
