"""Keeps a fresh view of every region: probes, heartbeats, and what our own calls bring back."""

import asyncio
import logging
import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from router.ejection import groups_of, kept
from router.failures import report
from router.memory import Memories
from router.mix import Timed
from router.regional import Regional
from router.signs import Signs
from tradewind.clock import Clock
from tradewind.control import RegionState
from tradewind.errors import StoreError, StoreFull, StoreMoving, StoreUnavailable
from tradewind.fleet import Fleet
from tradewind.limits import HEARTBEAT_EVERY_MS, SECOND_MS
from tradewind.metrics import (
    REGION_RTT_SECONDS,
    REGION_STATE,
    REGION_STATES,
    REGION_WORKERS,
    forget,
)
from tradewind.policy.defaults import HOME_RTT_MS, UNSEEN_RTT_MS
from tradewind.ports import Vitals
from tradewind.task import LiveWorker
from tradewind.ticks import tick
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
        draw: Callable[[], float] = random.random,
        allow_eviction: bool = False,
    ) -> None:
        """`region` is the router's own. `on_pass(region, "probe" | "workers")` is for tests.

        `draw` is the chance in how long a region stays out: so routers do not return as one.
        `allow_eviction`: see Memories.
        """
        self._memories = Memories(allow_eviction=allow_eviction)
        self._fleet, self._region = fleet, region
        self._clock, self._on_pass, self._draw = clock, on_pass, draw
        self._vitals: dict[str, Vitals] = {}
        self._signs: dict[str, Signs] = {}
        self._connected: set[str] = set()
        self._down: dict[str, None] = {}  # in the order in which they went
        self._shown: dict[str, str] = {}  # region -> its state in the metrics
        self._first_look: dict[str, asyncio.Event] = {}
        self._first_muster: dict[str, asyncio.Event] = {}
        self._timed = Timed()
        #: Grows with whatever is heard of any region.
        self.news = 0
        self._states: Mapping[str, RegionState] = {}
        self._listener: Callable[[str], None] = lambda _region: None
        self._probes, self._musters = Regional(self._probe_loop), Regional(self._workers_loop)
        self.follow(fleet, vitals)

    def follow(self, fleet: Fleet, vitals: Mapping[str, Vitals]) -> None:
        """Go on with another fleet, and `vitals` of each of its regions.

        What is known of a region stays if its vitals are the same object as before.
        """
        self._fleet, self.news = fleet, self.news + 1
        self._band_ms = fleet.steering.band_min_ms
        before, self._vitals = self._vitals, dict(vitals)
        now_ms = self._clock.monotonic_ms()
        signs: dict[str, Signs] = {}  # in the order of the file
        for name in fleet.regions:
            if name in self._signs and before.get(name) is self._vitals.get(name):
                signs[name] = self._signs[name]
                signs[name].follow(fleet)
            else:
                self._forget(name)
                signs[name] = Signs(
                    name,
                    fleet,
                    prior_rtt_ms=self._prior_ms(self._region, name),
                    now_ms=now_ms,
                    draw=self._draw,
                    seconds=self._timed.seconds,
                )
        for name in self._signs.keys() - signs.keys():
            self._forget(name)
            self._memories.forget(name)
            forget(REGION_WORKERS, name)
            for state in REGION_STATES:
                forget(REGION_STATE, name, state)
        self._signs = signs
        self.steer(self._states)
        self._groups = groups_of({n: region.residency for n, region in fleet.regions.items()})
        for looks in (self._first_look, self._first_muster):
            looks |= {n: asyncio.Event() for n in self._vitals.keys() - looks}
        self._probes.follow(self._vitals)
        self._musters.follow(self._vitals)

    def _forget(self, name: str) -> None:
        self._connected.discard(name)
        self._down.pop(name, None)
        self._shown.pop(name, None)
        self._first_look.pop(name, None)
        self._first_muster.pop(name, None)

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
        rtts_ms = self._rtts_ms(near)
        # The caller's own region counts as the nearest, unless another is nearer by a band:
        # below that it is noise that decides, most of all where all regions are on one machine.
        others_ms = min((ms for name, ms in rtts_ms.items() if name != near), default=math.inf)
        if near in rtts_ms and others_ms <= rtts_ms[near] < others_ms + self._band_ms:
            rtts_ms[near] = others_ms * _A_LITTLE_LESS
        stays = self._stays(now_ms) if self._down else frozenset[str]()
        return [
            signs.view(now_ms, rtt_ms=rtts_ms[name], stays=name in stays)
            for name, signs in self._signs.items()
        ]

    def view(self, region: str) -> RegionView:
        """One region as of now; nothing is known of one that has left the file."""
        signs = self._signs.get(region)
        if signs is None:
            return RegionView(region, UNSEEN_RTT_MS, health="UNKNOWN")
        now_ms = self._clock.monotonic_ms()
        return signs.view(now_ms, stays=bool(self._down) and region in self._stays(now_ms))

    def takes_s(self, region: str, name: str) -> float:
        """How long a task of that name takes in a region of the file, as far as anybody knows."""
        return self._signs[region].takes_s(name)

    def answers(self, region: str) -> bool:
        """Whether a call to it is worth while, whether tasks are sent there or not."""
        signs = self._signs.get(region)
        return signs is None or signs.breaker.answers

    def workers(self, region: str) -> Sequence[LiveWorker]:
        """The live workers of a region, as last read."""
        signs = self._signs.get(region)
        return () if signs is None else signs.crew.workers

    def silent(self) -> list[str]:
        """Regions that do not answer this router, or that it has not reached yet.

        One that is tried again, or kept out though it answers, is none.
        """
        now_ms = self._clock.monotonic_ms()
        return [
            name
            for name, signs in self._signs.items()
            if not signs.breaker.answers or signs.standing(now_ms).health == "UNKNOWN"
        ]

    def sent(self, region: str, names: Mapping[str, int]) -> None:
        """Tasks are on their way to a region, so many of each name.

        Of a region that has left the file, nothing is kept.
        """
        if signs := self._signs.get(region):
            signs.sent(self._clock.monotonic_ms(), names)

    def dropped(self, region: str, names: Mapping[str, int]) -> None:
        """They are not any more, and nothing was learnt."""
        if signs := self._signs.get(region):
            signs.dropped(self._clock.monotonic_ms(), names)

    def answered(
        self,
        region: str,
        names: Mapping[str, int],
        depths: Mapping[int, int],
        error: StoreError | None,
        took_ms: float | None = None,
    ) -> None:
        """The call that carried tasks ended: with a load report, or with `error` for all.

        `took_ms`: how long it took, if it was answered.
        """
        self.news += 1
        if signs := self._signs.get(region):
            signs.answered(self._clock.monotonic_ms(), names, depths, took_ms)
        self._note(region, error, is_task=True)

    def note(self, region: str, error: StoreError | None) -> None:
        """A call to a region went well, or ended with `error`."""
        self._note(region, error, is_task=False)

    def _note(self, region: str, error: StoreError | None, *, is_task: bool) -> None:
        self.news += 1
        signs, now_ms = self._signs.get(region), self._clock.monotonic_ms()
        if signs is None:
            return
        if isinstance(error, StoreFull) and not error.partly:
            signs.filled(now_ms)
        if isinstance(error, StoreUnavailable) and error.partly:
            signs.missed(now_ms)  # a replica takes over, or probes find out that none does
            return
        # A full store and a slot that moves are answers: the region lives.
        is_good = error is None or isinstance(error, StoreFull | StoreMoving)
        signs.called(now_ms, ok=is_good, is_task=is_task)
        self._tell(region, error)

    def probed(self, region: str, rtt_ms: float | None, failure: StoreError | None = None) -> None:
        """A probe ended: with a round trip, or with `failure`."""
        self.news += 1
        self._signs[region].probed(self._clock.monotonic_ms(), rtt_ms)
        REGION_RTT_SECONDS.labels(region).set(self._signs[region].rtt.ms / SECOND_MS)
        self._show(region)
        self._tell(region, failure)

    def mustered(self, region: str, workers: Sequence[LiveWorker]) -> None:
        """The heartbeats of a region were read."""
        signs, now_ms = self._signs[region], self._clock.monotonic_ms()
        try:
            signs.mustered(now_ms, workers)
            self._timed.note(now_ms, signs.crew.timings)
            REGION_WORKERS.labels(region).set(len(signs.crew.workers))
            self.note(region, None)
        finally:  # what operators have ordered came with them, whatever they say
            self._listener(region)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Have `listener(region)` called whenever the heartbeats of a region were read."""
        self._listener = listener

    def steer(self, states: Mapping[str, RegionState]) -> None:
        """Take the states that operators gave to regions; those not named are ACTIVE."""
        self._states, self.news = states, self.news + 1
        for name, signs in self._signs.items():
            signs.state = states.get(name, "ACTIVE")

    def hold_back(self, region: str, tasks: int) -> None:
        """So many of its ready tasks are of paused queues, or run by nobody there."""
        if signs := self._signs.get(region):
            signs.held_back, self.news = tasks, self.news + 1

    def send_unserved(self, region: str) -> None:
        """A task is sent where nobody runs it: no other waits behind it."""
        if signs := self._signs.get(region):
            signs.held_back += 1

    def lack(self, region: str, durabilities: Mapping[str, str]) -> None:
        """Its Redis cannot keep tasks so durably; each with its cause."""
        if signs := self._signs.get(region):
            signs.lacks, self.news = durabilities, self.news + 1

    async def first_look(self, timeout_s: float) -> None:
        """Return once every region was asked how it is and who works there, or in `timeout_s`.

        What operators have ordered is known by then, too.
        """
        events = (*self._first_look.values(), *self._first_muster.values())
        looks = (event.wait() for event in events)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*looks)
        except TimeoutError:
            return

    async def run(self) -> None:
        """Look at all regions until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._probes.run())
            group.create_task(self._musters.run())

    async def _probe_loop(self, name: str) -> None:
        while True:
            await self._look(name, "probe", self._probe)
            self._first_look[name].set()
            await tick(self._fleet.health.interval_ms / SECOND_MS)

    async def _workers_loop(self, name: str) -> None:
        while True:
            await self._look(name, "workers", self.muster)
            self._first_muster[name].set()
            await tick(HEARTBEAT_EVERY_MS / SECOND_MS)

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
                if name not in self._connected:
                    await self._vitals[name].probe()  # this one measures how long connecting takes
                probe = await self._vitals[name].probe()
            rtt_ms = probe.rtt_ms
            self._memories.take(name, self._signs[name], probe)
        except StoreError as error:
            failure = error
        (self._connected.discard if rtt_ms is None else self._connected.add)(name)
        self.probed(name, rtt_ms, failure)

    async def muster(self, region: str) -> None:
        """Read the heartbeats of a region now. One that does not answer is noted; never raises."""
        if (vitals := self._vitals.get(region)) is None:  # it has left the file
            return
        try:
            async with self._in_time(region):
                workers = await vitals.workers()
            if self._vitals.get(region) is vitals:
                self.mustered(region, workers)
        except StoreError as error:
            self.note(region, error)
        except Exception as error:  # noqa: BLE001 - a bug; whoever waits for orders goes on
            report("census: workers", error)

    @asynccontextmanager
    async def _in_time(self, name: str) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(self._fleet.health.timeout_ms / SECOND_MS):
                yield
        except TimeoutError:
            raise StoreUnavailable(name, "no answer in time", sent=True) from None

    def _tell(self, name: str, error: StoreError | None) -> None:
        """Log when a region goes down or comes back, as seen from here."""
        down = self._signs[name].breaker.down
        if down == (name in self._down):
            return
        self._show(name)
        if down:
            self._down[name] = None
            _log.warning("a region is down", extra={"of": name, "cause": str(error)})
        else:
            del self._down[name]
            _log.info("a region is back", extra={"of": name})

    def _show(self, name: str) -> None:
        """Say in the metrics how the region stands."""
        now_ms = self._clock.monotonic_ms()
        standing = self._signs[name].standing(now_ms)
        now = "half-open" if standing.trial else standing.health.lower()
        if self._shown.get(name) != now:
            self._shown[name] = now
            for state in REGION_STATES:
                REGION_STATE.labels(name, state).set(state == now)

    def _stays(self, now_ms: float) -> frozenset[str]:
        """Regions that soft evidence may not take out, too many of their group being out."""
        found = {name: self._signs[name].breaker.at(now_ms) for name in self._down}
        soft = [name for name, standing in found.items() if standing.is_soft]
        if not soft:
            return frozenset()
        hard = {n for n, each in found.items() if each.health == "DOWN" and not each.is_soft}
        return kept(soft, hard, self._groups)

    def _rtts_ms(self, origin: str) -> dict[str, float]:
        rtts_ms = {name: signs.rtt.ms for name, signs in self._signs.items()}
        if origin != self._region:
            priors_ms = ((name, self._known_prior_ms(origin, name)) for name in rtts_ms)
            rtts_ms |= {name: ms for name, ms in priors_ms if ms is not None}
        return rtts_ms

    def _prior_ms(self, origin: str, name: str) -> float:
        known_ms = self._known_prior_ms(origin, name)
        return UNSEEN_RTT_MS if known_ms is None else known_ms

    def _known_prior_ms(self, origin: str, name: str) -> float | None:
        return HOME_RTT_MS if origin == name else self._fleet.rtt_ms.get((origin, name))
