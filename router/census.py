"""Keeps a fresh view of every region: probes, heartbeats, and what our own calls bring back."""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from router.failures import report
from router.signs import HOME_RTT_MS, UNKNOWN_RTT_MS, Signs
from tradewind.clock import Clock
from tradewind.errors import StoreError, StoreFull, StoreMoving, StoreUnavailable
from tradewind.fleet import Fleet
from tradewind.limits import HEARTBEAT_EVERY_MS, SECOND_MS
from tradewind.metrics import REGION_RTT_SECONDS
from tradewind.ports import Vitals
from tradewind.task import LiveWorker
from tradewind.view import RegionView

_log = logging.getLogger(__name__)
_A_LITTLE_LESS: Final = 0.999


def _no_hook(_region: str, _what: str) -> None:
    """Nobody waits for a pass."""


class Census:
    """What this router knows of all regions. One event loop uses it; it takes no lock."""

    def __init__(
        self,
        fleet: Fleet,
        region: str,
        vitals: Mapping[str, Vitals],
        clock: Clock,
        *,
        on_pass: Callable[[str, str], None] = _no_hook,
    ) -> None:
        """`region` is the router's own. `on_pass(region, "probe" | "workers")` is for tests."""
        self._fleet, self._region, self._vitals = fleet, region, vitals
        self._clock, self._on_pass = clock, on_pass
        self._band_ms = fleet.steering.band_min_ms
        now_ms = clock.monotonic_ms()
        self._signs = {
            name: Signs(
                name, fleet.health, prior_rtt_ms=self._prior_ms(region, name), now_ms=now_ms
            )
            for name in fleet.regions
        }
        self._connected = dict.fromkeys(vitals, False)
        self._down: set[str] = set()
        self._first_look = {name: asyncio.Event() for name in vitals}
        #: Grows with whatever is heard of any region.
        self.news = 0

    @property
    def region(self) -> str:
        """The router's own region."""
        return self._region

    def now_ms(self) -> float:
        """The clock by which views age: monotonic."""
        return self._clock.monotonic_ms()

    def views(self, origin: str | None = None) -> list[RegionView]:
        """Every region as of now. For a caller in another region than ours, RTT is its prior."""
        now_ms = self._clock.monotonic_ms()
        near = origin or self._region
        rtts_ms = {name: self._rtt_ms(near, name) for name in self._signs}
        # The caller's own region counts as the nearest, unless another is nearer by a band:
        # below that it is noise that decides, most of all where all regions are on one machine.
        others_ms = min((ms for name, ms in rtts_ms.items() if name != near), default=math.inf)
        if near in rtts_ms and others_ms <= rtts_ms[near] < others_ms + self._band_ms:
            rtts_ms[near] = others_ms * _A_LITTLE_LESS
        return [signs.view(now_ms, rtt_ms=rtts_ms[name]) for name, signs in self._signs.items()]

    def view(self, region: str) -> RegionView:
        """One region as of now."""
        return self._signs[region].view(self._clock.monotonic_ms())

    def workers(self, region: str) -> Sequence[LiveWorker]:
        """The live workers of a region, as last read."""
        return self._signs[region].crew.workers

    def silent(self) -> list[str]:
        """Regions that this router holds for down, or has not reached yet."""
        return [view.name for view in self.views() if view.health in {"DOWN", "UNKNOWN"}]

    def sent(self, region: str, tasks: int) -> None:
        """Tasks are on their way to a region."""
        self._signs[region].sent(tasks)

    def dropped(self, region: str, tasks: int) -> None:
        """They are not any more, and nothing was learnt."""
        self._signs[region].sent(-tasks)

    def answered(
        self, region: str, tasks: int, depths: Mapping[int, int], error: StoreError | None
    ) -> None:
        """The call that carried `tasks` ended: with a load report, or with `error` for all."""
        self.news += 1
        self._signs[region].answered(self._clock.monotonic_ms(), tasks, depths)
        self.note(region, error)

    def note(self, region: str, error: StoreError | None) -> None:
        """A call to a region went well, or ended with `error`."""
        self.news += 1
        signs, now_ms = self._signs[region], self._clock.monotonic_ms()
        if isinstance(error, StoreFull):
            signs.filled(now_ms)
        # A full store and a slot that moves are answers: the region lives.
        signs.called(now_ms, ok=error is None or isinstance(error, StoreFull | StoreMoving))
        self._tell(region, error)

    async def first_look(self, timeout_s: float) -> None:
        """Return once every region was probed, or `timeout_s` is over."""
        looks = (event.wait() for event in self._first_look.values())
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*looks)
        except TimeoutError:
            return

    async def run(self) -> None:
        """Look at all regions until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name in self._vitals:
                group.create_task(self._probe_loop(name))
                group.create_task(self._workers_loop(name))

    async def _probe_loop(self, name: str) -> None:
        while True:
            await self._look(name, "probe", self._probe)
            self._first_look[name].set()
            await asyncio.sleep(self._fleet.health.interval_ms / SECOND_MS)

    async def _workers_loop(self, name: str) -> None:
        while True:
            await self._look(name, "workers", self._muster)
            await asyncio.sleep(HEARTBEAT_EVERY_MS / SECOND_MS)

    async def _look(self, name: str, what: str, look: Callable[[str], Awaitable[None]]) -> None:
        """Look once. A bug is logged, and the next look comes all the same."""
        try:
            await look(name)
        except Exception as error:  # noqa: BLE001 - without its census a router is blind
            report(f"census: {what}", error)
        self._on_pass(name, what)

    async def _probe(self, name: str) -> None:
        rtt_ms, failure = None, None
        try:
            async with self._in_time(name):
                if not self._connected[name]:
                    await self._vitals[name].probe()  # this one measures how long connecting takes
                rtt_ms = await self._vitals[name].probe()
        except StoreError as error:
            failure = error
        self.news += 1
        self._connected[name] = rtt_ms is not None
        self._signs[name].probed(self._clock.monotonic_ms(), rtt_ms)
        REGION_RTT_SECONDS.labels(name).set(self._signs[name].rtt.ms / SECOND_MS)
        self._tell(name, failure)

    async def _muster(self, name: str) -> None:
        try:
            async with self._in_time(name):
                workers = await self._vitals[name].workers()
        except StoreError as error:
            self.note(name, error)
        else:
            self._signs[name].mustered(self._clock.monotonic_ms(), workers)
            self.note(name, None)

    @asynccontextmanager
    async def _in_time(self, name: str) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(self._fleet.health.timeout_ms / SECOND_MS):
                yield
        except TimeoutError:
            raise StoreUnavailable(name, "no answer in time", sent=True) from None

    def _tell(self, name: str, error: StoreError | None) -> None:
        """Log when a region goes down or comes back, as seen from here."""
        down = self._signs[name].verdict.down
        if down == (name in self._down):
            return
        if down:
            self._down.add(name)
            _log.warning("a region is down", extra={"of": name, "cause": str(error)})
        else:
            self._down.discard(name)
            _log.info("a region is back", extra={"of": name})

    def _rtt_ms(self, origin: str, name: str) -> float:
        prior_ms = None if origin == self._region else self._known_prior_ms(origin, name)
        return self._signs[name].rtt.ms if prior_ms is None else prior_ms

    def _prior_ms(self, origin: str, name: str) -> float:
        known_ms = self._known_prior_ms(origin, name)
        return UNKNOWN_RTT_MS if known_ms is None else known_ms

    def _known_prior_ms(self, origin: str, name: str) -> float | None:
        return HOME_RTT_MS if origin == name else self._fleet.rtt_ms.get((origin, name))
