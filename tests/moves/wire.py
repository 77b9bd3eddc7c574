"""What lies between a courier and its regions: here a step fails, once, in one way."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.moves.matrix import SEAL, STEPS, UNCLOCKED, UNSURE
from tests.scripts.world import PLACE, client_of
from tradewind.errors import StoreError, StoreUnavailable
from tradewind.store.nodes import Nodes
from tradewind.store.region_client import RegionClient
from tradewind.store.region_store import RegionStore

WATCHED = frozenset(step for steps in STEPS.values() for step in steps)

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
    """Between one courier and all regions. `told` gets a line for each step."""

    def __init__(
        self, who: str, stores: Mapping[str, RegionStore], around: Surroundings, told: list[str]
    ) -> None:
        """From now on nothing reaches the stores but through this."""
        self._who, self._around, self._told = who, around, told
        self._is_dead = False
        self.fault, self.step = "", ""  # what is to happen, and where
        self.has_failed = False
        self.asleep, self.wake = asyncio.Event(), asyncio.Event()
        self._last = ""  # step that was taken in a region
        self._has_lost = ""  # the region that has lost what was not sealed
        for name, store in stores.items():
            store.seal = self._seals(name, store, type(store).seal)
            client: Any = client_of(store)
            # The methods of the classes: an earlier case has left its own wire here.
            kind: Any = RegionClient
            client.run = self._runs(name, client, kind.run)
            client.plain = self._reads(client, kind.plain)
            client.nodes.server_now_ms = self._clocks(name, client.nodes, Nodes.server_now_ms)

    def _runs(self, region: str, client: Any, run: Any) -> Any:
        async def through(call: Any, **kwargs: Any) -> Any:
            step = call.script.name

            async def send() -> Any:
                return await run(client, call, **kwargs)

            if self._is_dead:
                raise Killed
            if step not in WATCHED:
                return await send()
            self._last = step
            return await self._takes(region, step, send)

        return through

    def _seals(self, region: str, store: Any, seal: Any) -> Any:
        async def send() -> list[bool]:
            if self._has_lost == region:
                self._has_lost = ""
                raise StoreUnavailable(region, "cut", sent=True)
            return [await seal(store, PLACE)]

        async def through(_partition: int) -> bool:
            if self._is_dead:
                raise Killed
            step = "begin_export" if region == self.home else self._last
            (is_safe,) = await self._takes(region, SEAL + step, send)
            return is_safe

        return through

    def _reads(self, client: Any, plain: Any) -> Any:
        async def through(*args: Any, **kwargs: Any) -> Any:
            if self._is_dead:
                raise Killed
            return await plain(client, *args, **kwargs)

        return through

    def _clocks(self, region: str, nodes: Any, now_ms: Any) -> Any:
        async def through(partition: int) -> int:
            if self.fault == UNCLOCKED and not self.has_failed and region != self.home:
                await self._sleeps("the clock of", region)
            return await now_ms(nodes, partition)

        return through

    home = ""  # the region that tasks leave: imports ask the others for the time

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
        if self.has_failed or step != self.step or self.fault == UNCLOCKED:
            return await carry()
        self.has_failed = True
        return await self._fails(region, step, carry)

    async def _fails(self, region: str, step: str, carry: Send) -> Any:
        cut = StoreUnavailable(region, "cut", sent=self.fault != "not sent")
        bring_back = self._around.remember(region)
        if self.fault == "asleep before":
            await self._sleeps(step, region)
            return await carry()
        outcome: Any = cut
        if self.fault not in {"killed before", "not sent"}:
            try:
                outcome = await carry()
            except StoreError as error:
                outcome = error
        self._tell(step, region, f"[{self.fault}]")
        if self.fault.startswith("lost"):
            bring_back()
            self._has_lost = region
        if self.fault in {"killed before", "killed after", "lost with its courier"}:
            self._is_dead = True
            raise Killed
        if self.fault == "asleep after":
            await self._sleeps(step, region)
        if self.fault == UNSURE:
            return [False]
        if self.fault in {"not sent", "answer lost", "lost"}:
            raise cut
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    async def _sleeps(self, step: str, region: str) -> None:
        self.has_failed = True
        self._tell(step, region, "[falls asleep]")
        self.asleep.set()
        await self.wake.wait()
        self._tell(step, region, "[wakes up]")

    def _tell(self, step: str, region: str, what: str) -> None:
        self._told.append(f"{self._who}: {step} {region}: {what}")
