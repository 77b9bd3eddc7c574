"""What lies between a courier and its regions: here a step fails, once, in one way."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.moves.matrix import LONG, SEAL, STEPS, UNCLOCKED, UNSURE, WELL
from tests.scripts.world import PLACE, client_of
from tradewind.errors import StoreError, StoreUnavailable
from tradewind.store.nodes import Nodes
from tradewind.store.region_client import RegionClient
from tradewind.store.region_store import RegionStore

WATCHED = frozenset(step for steps in STEPS.values() for step in steps)
OUTSIDE = "sent out of the fence"

Send = Callable[[], Awaitable[Any]]


class Killed(BaseException):
    """Nothing of this courier goes on; so no clause that catches errors may catch it."""


class Surroundings:
    """What a wire asks of the world around it. By default nothing happens there."""

    async def reached(self, step: str) -> None:
        """A courier is about to take this step."""

    async def carried_out(self, region: str, step: str, send: Send) -> Any:
        """Let the region carry it out."""
        return await send()

    def remember(self, region: str) -> Callable[[], None]:
        """Keep all that the region holds now; what is returned brings it back."""
        raise NotImplementedError


class Wire:
    """Between one courier and all regions. `told` gets a line for each step.

    `out`: regions that do not answer anybody, for now. `home`: the region that tasks leave.
    """

    def __init__(
        self,
        who: str,
        stores: Mapping[str, RegionStore],
        around: Surroundings,
        *,
        home: str,
        out: set[str],
        told: list[str],
    ) -> None:
        """From now on nothing reaches the stores but through this."""
        self._who, self._around, self._home, self._out = who, around, home, out
        self._told = told
        self.fault = WELL  # what is to happen, and where
        self.is_dead = self.has_failed = False
        self.asleep, self.wake = asyncio.Event(), asyncio.Event()
        self.closed: set[str] = set()  # regions out of the fence, as its courier knows
        self._last: dict[str, str] = {}  # step that was answered, by region
        for name, store in stores.items():
            store.seal = self._seals(name, store, type(store).seal)
            client: Any = client_of(store)
            # The methods of the classes: an earlier case has left its own wire here.
            kind: Any = RegionClient
            client.run = self._runs(name, client, kind.run)
            client.plain = self._reads(name, client, kind.plain)
            client.nodes.server_now_ms = self._clocks(name, client.nodes, Nodes.server_now_ms)

    @property
    def sleeps(self) -> bool:
        """Whether its courier stands still."""
        return self.asleep.is_set() and not self.wake.is_set()

    def _runs(self, region: str, client: Any, run: Any) -> Any:
        async def through(call: Any, **kwargs: Any) -> Any:
            step = call.script.name

            async def send() -> Any:
                self._must_answer(region)
                return await run(client, call, **kwargs)

            if self.is_dead:
                raise Killed
            if step not in WATCHED:
                return await send()
            if step == "import_task" and region in self.closed:
                self._tell(step, region, OUTSIDE)
            reply = await self._takes(region, step, send)
            self._last[region] = step
            return reply

        return through

    def _seals(self, region: str, store: Any, seal: Any) -> Any:
        async def through(_partition: int, *args: Any) -> bool:
            async def send() -> list[bool]:
                self._must_answer(region)
                return [await seal(store, PLACE, *args)]

            if self.is_dead:
                raise Killed
            step = self._last.pop(region, "")
            if region == self._home and step != "ack_export":
                step = "begin_export"  # perhaps by the courier before
            (is_safe,) = await self._takes(region, SEAL + step, send)
            return is_safe

        return through

    def _reads(self, region: str, client: Any, plain: Any) -> Any:
        async def through(*args: Any, **kwargs: Any) -> Any:
            if self.is_dead:
                raise Killed
            self._must_answer(region)
            return await plain(client, *args, **kwargs)

        return through

    def _clocks(self, region: str, nodes: Any, now_ms: Any) -> Any:
        async def through(partition: int) -> int:
            # Imports ask the others for the time.
            if self.fault.kind == UNCLOCKED and not self.has_failed and region != self._home:
                await self._sleeps("the clock of", region)
            self._must_answer(region)
            return await now_ms(nodes, partition)

        return through

    def _must_answer(self, region: str) -> None:
        if region in self._out:
            raise StoreUnavailable(region, "out", sent=False)

    async def _takes(self, region: str, step: str, send: Send) -> Any:
        async def carry() -> Any:
            try:
                reply = await self._around.carried_out(region, step, send)
            except StoreError as error:
                self._tell(step, region, type(error).__name__)
                raise
            self._tell(step, region, str(reply[0]))
            return reply

        await self._around.reached(step)
        kind, is_here = self.fault.kind, step == self.fault.step and region not in self._out
        if self.has_failed or not is_here or kind == UNCLOCKED:
            return await carry()
        self.has_failed = True
        return await self._fails(region, step, carry)

    async def _fails(self, region: str, step: str, carry: Send) -> Any:
        kind = self.fault.kind
        if kind == "asleep before":
            await self._sleeps(step, region)
            return await carry()
        outcome: Any = None
        if kind not in {"killed before", "not sent"}:
            outcome = await self._done(region, carry)
        self._tell(step, region, f"[{self.fault}]")
        if kind in {"killed before", "killed after", "lost with its courier"}:
            self.is_dead = True
            raise Killed
        if kind == "asleep after":
            await self._sleeps(step, region)
        if kind == UNSURE:
            return [False]
        if kind in {"not sent", "answer lost", "lost"}:
            raise StoreUnavailable(region, "cut", sent=kind != "not sent")
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    async def _done(self, region: str, carry: Send) -> Any:
        """Carry it out, and undo it if that is lost. Returns what was answered, or the error."""
        is_lost = self.fault.kind.startswith("lost")
        bring_back = self._around.remember(region) if is_lost else None
        try:
            outcome = await carry()
        except StoreError as error:
            outcome = error
        if bring_back is not None:
            bring_back()
            if self.fault.lasts == LONG:
                self._out.add(region)
        return outcome

    async def _sleeps(self, step: str, region: str) -> None:
        self.has_failed = True
        self._tell(step, region, "[falls asleep]")
        self.asleep.set()
        await self.wake.wait()
        self._tell(step, region, "[wakes up]")

    def _tell(self, step: str, region: str, what: str) -> None:
        self._told.append(f"{self._who}: {step} {region}: {what}")
