"""What one router has seen of one region, folded into the numbers that routing reads.

No loop and no clock in here: each event comes with the router's monotonic time in ms.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from router.breaker import Breaker, Standing
from router.load import Load
from router.slowness import Slowness
from tradewind.control import RegionState
from tradewind.crew import Crew
from tradewind.fleet import Fleet
from tradewind.limits import MINUTE_MS, SECOND_MS
from tradewind.task import LiveWorker
from tradewind.view import RegionView

DECAY_MS: Final = 10 * SECOND_MS  # of RTT and success rate (peak EWMA of Linkerd and Envoy)
FULL_FOR_MS: Final = 5 * SECOND_MS  # after a refusal for memory
PRIOR_CALLS: Final = 10.0  # good ones, before any: one bad call makes no rate; own choice
MAX_SERVED: Final = 4_096  # pairs of queue and handler; above it the longest unseen are forgotten
MOST_MS: Final = 5 * MINUTE_MS  # the slots of a region when all is well; own choice
FEW_SLOTS: Final = 0.71  # of these, below which it is degraded (1/1.4, Envoy overprovisioning)


class PeakRtt:
    """Peak EWMA: a slower sample counts at once, a faster one with time (Finagle, Linkerd)."""

    def __init__(self, prior_ms: float) -> None:
        """`prior_ms` holds until the first sample."""
        self.ms = prior_ms
        self._at_ms: float | None = None

    def add(self, now_ms: float, sample_ms: float) -> None:
        """Fold one round trip in."""
        if self._at_ms is None or sample_ms >= self.ms:
            self.ms = sample_ms
        else:
            kept = math.exp(-(now_ms - self._at_ms) / DECAY_MS)
            self.ms = self.ms * kept + sample_ms * (1 - kept)
        self._at_ms = now_ms


class SuccessRate:
    """Share of good calls, older ones counting less; starts as PRIOR_CALLS good ones."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self._good, self._bad, self._at_ms = 0.0, 0.0, 0.0

    def add(self, now_ms: float, *, ok: bool) -> None:
        """Fold one call in."""
        self._decay(now_ms)
        if ok:
            self._good += 1
        else:
            self._bad += 1

    def at(self, now_ms: float) -> float:
        """Return the rate, 0 to 1; it drifts back to 1 while nothing is called."""
        if not self._bad:
            return 1.0
        self._decay(now_ms)
        return (self._good + PRIOR_CALLS) / (self._good + self._bad + PRIOR_CALLS)

    def _decay(self, now_ms: float) -> None:
        kept = math.exp(-max(0.0, now_ms - self._at_ms) / DECAY_MS)
        self._good, self._bad, self._at_ms = self._good * kept, self._bad * kept, now_ms


class Served:
    """Which queues and handlers live workers run, or ran until a moment ago.

    A rolling deploy may end the last worker of a queue before the next one starts.
    """

    def __init__(self) -> None:
        """Nothing was served yet."""
        self.now: Mapping[str, frozenset[str]] = {}
        self._last_ms: dict[tuple[str, str], float] = {}  # queue, handler

    def note(self, now_ms: float, served: Mapping[str, frozenset[str]], kept_for_ms: float) -> None:
        """Take what is served now. What is not any more counts for `kept_for_ms` longer."""
        last_ms = {
            pair: at_ms for pair, at_ms in self._last_ms.items() if now_ms - at_ms < kept_for_ms
        }
        last_ms |= {(queue, name): now_ms for queue, names in served.items() for name in names}
        self._last_ms = dict(list(last_ms.items())[-MAX_SERVED:])
        found: dict[str, set[str]] = {}
        for queue, name in self._last_ms:
            found.setdefault(queue, set()).add(name)
        self.now = {queue: frozenset(names) for queue, names in found.items()}


class Most:
    """The most of some number in the last MOST_MS at least, and in twice that at most."""

    def __init__(self) -> None:
        """Nothing was counted yet."""
        self._half, self._before, self._now = 0, 0, 0

    def add(self, now_ms: float, count: int) -> int:
        """Take a number; returns the most."""
        half = int(now_ms / MOST_MS)
        if half != self._half:
            self._before = self._now if half == self._half + 1 else 0
            self._half, self._now = half, 0
        self._now = max(self._now, count)
        return max(self._now, self._before)


class Signs:
    """All that one router has seen of one region."""

    def __init__(
        self,
        name: str,
        fleet: Fleet,
        *,
        prior_rtt_ms: float,
        now_ms: float,
        draw: Callable[[], float],
        seconds: Mapping[str, float] | None = None,
    ) -> None:
        """`now_ms` is when this router began to look; `draw` the chance in how long it stays out.

        `draw` returns numbers in [0, 1). `seconds`: see Mix.
        """
        self.name = name
        self.rtt = PeakRtt(prior_rtt_ms)
        self.breaker = Breaker(fleet.health, draw)
        self._fleet = fleet
        self._ok = SuccessRate()
        self._load = Load(fleet.partitions, now_ms, seconds)
        self._in_flight = 0
        self._served, self._served_at_ms = Served(), now_ms
        self._most, self._live_share, self._has_few = Most(), 1.0, False
        self._slowness, self._full_until_ms = Slowness(), -math.inf
        self._full = False  # by the last probe
        #: Whether its Redis would delete tasks to make room.
        self.evicts = False
        #: Durabilities that its Redis cannot give, each with its cause.
        self.lacks: Mapping[str, str] = {}
        #: What operators let it do.
        self.state: RegionState = "ACTIVE"

    @property
    def crew(self) -> Crew:
        """The live workers, as last read."""
        return self._load.crew

    @property
    def held_back(self) -> int:
        """Ready tasks of paused queues, and of those that nobody there runs."""
        return self._load.held_back

    @held_back.setter
    def held_back(self, tasks: int) -> None:
        self._load.held_back = tasks

    def takes_s(self, name: str) -> float:
        """How long a task of that name takes there, as far as anybody knows."""
        return self._load.takes_s(name)

    def follow(self, fleet: Fleet) -> None:
        """Judge by other thresholds from now on; what was seen stays."""
        self._fleet = fleet
        self.breaker.follow(fleet.health)

    def probed(self, now_ms: float, rtt_ms: float | None) -> None:
        """Take a probe's round trip, or None for a probe that failed."""
        self.breaker.probed(now_ms, ok=rtt_ms is not None)
        self._ok.add(now_ms, ok=rtt_ms is not None)
        if rtt_ms is not None:
            self.rtt.add(now_ms, rtt_ms)

    def called(self, now_ms: float, *, ok: bool, is_task: bool = False) -> None:
        """Take the outcome of a call; `ok` is False for infrastructure errors only."""
        self.breaker.called(now_ms, ok=ok, is_task=is_task)
        self._ok.add(now_ms, ok=ok)

    def missed(self, now_ms: float) -> None:
        """One primary of several did not answer: no word on the region, but not all goes well."""
        self._ok.add(now_ms, ok=False)

    def mustered(self, now_ms: float, workers: Sequence[LiveWorker]) -> None:
        """Take the heartbeats of the region."""
        self._load.mustered(now_ms, self.rtt.ms, workers)
        crew = self.crew
        self._served.note(now_ms, crew.served, self._fleet.failover.unserved_after_ms)
        most = self._most.add(now_ms, crew.slots)
        self._live_share = crew.slots / max(1, most)
        self._has_few = crew.slots < FEW_SLOTS * most
        if crew.workers:
            self._served_at_ms = now_ms

    def sent(self, now_ms: float, names: Mapping[str, int]) -> None:
        """Count tasks as on their way, so many of each name."""
        self._in_flight += sum(names.values())
        self._load.sent(now_ms, names)

    def dropped(self, now_ms: float, names: Mapping[str, int]) -> None:
        """Count them as never sent."""
        self._in_flight -= sum(names.values())
        self._load.sent(now_ms, {name: -tasks for name, tasks in names.items()})

    def answered(
        self,
        now_ms: float,
        names: Mapping[str, int],
        ready: Mapping[int, int],
        took_ms: float | None = None,
    ) -> None:
        """Count them as arrived beside `ready` ones by partition; without a report, as lost.

        `took_ms`: how long the call took that carried them.
        """
        if took_ms is not None:
            self._slowness.add(now_ms, took_ms)
        if ready:
            tasks = sum(names.values())
            self._in_flight -= tasks
            self._load.answered(now_ms, self.rtt.ms, tasks, ready)
        else:
            self.dropped(now_ms, names)

    def filled(self, now_ms: float) -> None:
        """Take a refusal for memory."""
        self._full_until_ms = now_ms + FULL_FOR_MS

    def measured(self, *, full: bool) -> None:
        """Take what a probe found: room ends what a refusal has said."""
        self._full, self._full_until_ms = full, -math.inf

    def standing(self, now_ms: float, *, stays: bool = False) -> Standing:
        """Return what holds of the region now: what the breaker says, or less.

        With `stays` it is not out by soft evidence: see router.ejection.
        """
        standing = self.breaker.at(now_ms)
        if stays and standing.is_soft:
            return Standing("DEGRADED")
        if standing.health == "HEALTHY" and (self._has_few or self._slowness.at(now_ms)):
            return Standing("DEGRADED")
        return standing

    def view(
        self, now_ms: float, *, rtt_ms: float | None = None, stays: bool = False
    ) -> RegionView:
        """Return the region as it looks now; `rtt_ms` replaces the measured round trip."""
        crew, standing = self._load.crew, self.standing(now_ms, stays=stays)
        idle_ms = 0.0 if crew.workers else now_ms - self._served_at_ms
        load = self._load.at(now_ms)
        return RegionView(
            name=self.name,
            rtt_ms=self.rtt.ms if rtt_ms is None else rtt_ms,
            ok=self._ok.at(now_ms),
            health=standing.health,
            state=self.state,
            evicts=self.evicts,
            lacks=self.lacks,
            depth=round(load.depth),
            held_back=self.held_back,
            in_flight=self._in_flight,
            slots=crew.slots,
            free_slots=round(load.free_slots),
            rate=load.rate,
            service_s=load.service_s,
            age_s=load.age_ms / SECOND_MS,
            full=self._full or now_ms < self._full_until_ms,
            served=self._served.now,
            unserved_for_s=idle_ms / SECOND_MS,
            ramp=standing.ramp,
            trial=standing.trial,
            kept_out=self.breaker.is_kept_out(now_ms),
            out_for_s=self.breaker.out_for_ms(now_ms) / SECOND_MS,
            back_for_s=self.breaker.back_for_ms(now_ms) / SECOND_MS,
            live_share=self._live_share,
        )
