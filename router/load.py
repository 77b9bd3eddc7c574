"""How much a region has to do: a running estimate from reports that are partial, late and rare.

What counts is the excess: tasks that are ready or run there, less the slots of its workers. Below 0
it is free slots, above 0 tasks that wait. It moves by one with each arrival and each end, whatever
the region's state, so that every report can be brought up to now. Three things tell of it:

* Heartbeats, each some tenths of a second old: free slots, and how many tasks workers left behind.
  With every slot taken that is only the least there is: nobody has seen what came since. But where
  we have heard nothing else for long, it is also about the most.
* The answer to each enqueue: the ready tasks of one partition, before its own. Partitions are drawn
  at random, so that times their number this is the region's count on average, and far off each
  single time: for x tasks in n partitions its variance is n * x.
* What this router sends.

They are weighed by their variances (a Kalman filter in one dimension). Between reports the region
is taken to be in balance: what others send is what it completes, less what we send on average.
Pure: times are ms of the router's monotonic clock.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from router.mix import Mix
from tradewind.crew import LATELY_MS, Crew, muster
from tradewind.limits import SECOND_MS
from tradewind.policy.defaults import SERVICE_S
from tradewind.task import LiveWorker

OWN_MS: Final = LATELY_MS  # over which own tasks are averaged; as workers' completions
NOTHING_KNOWN: Final = 400.0  # variance, in tasks squared, before any report: some tens of tasks
_MOST_UNSURE: Final = 1e6  # the same, however long nothing is heard
BEAT_VARIANCE: Final = 4.0  # of heartbeats: they are written one after another
FEW: Final = 4.0  # tasks; of a region that seems idle an answer says little; by the simulator
LEAST_FLOW: Final = 1.0  # tasks/s; so that what is known of an idle region ages, too
_MOST_TASKS: Final = 1e9  # an estimate beyond it is none: no Redis holds so many; own choice
_KEPT: Final = 4_096  # answered calls, until heartbeats are newer; one call carries many tasks


class Reckoned(NamedTuple):
    """The load as of now, without what is on its way."""

    depth: float  # ready tasks
    free_slots: float
    age_ms: float  # as uncertain as a full report of that age
    rate: float  # completions a second, were all tasks like those that are there; 0 until known
    service_s: float  # how long one of these takes; 0 until known


class Load:
    """The estimate of one region by one router."""

    def __init__(
        self, partitions: int, now_ms: float, seconds: Mapping[str, float] | None = None
    ) -> None:
        """`now_ms` is when this router began to look; `seconds`: see Mix."""
        self.crew = Crew()
        #: Ready tasks that may not start, or that nobody there runs: no other waits behind them.
        self.held_back = 0
        self._runs: frozenset[str] | None = None  # handlers of its workers; None: any
        self._mix, self._under_way = Mix(now_ms, {} if seconds is None else seconds), 0
        self._partitions = partitions
        self._excess, self._variance, self._at_ms = 0.0, NOTHING_KNOWN, now_ms
        self._idle_beside = 0.0  # free slots beside ready tasks: they are for other queues
        self._began_ms, self._beat_ms = now_ms, -math.inf  # the time that heartbeats tell of
        self._own, self._own_at_ms = 0.0, now_ms
        self._answered_ms = now_ms  # when an answer told of the queue
        self._drain = 0.0  # tasks/s that end there and are not made up for by what others send
        # Arrivals and ends a second that nobody tells of: the variance of that is their number.
        self._flow = LEAST_FLOW
        self._arrived: deque[tuple[float, int]] = deque(maxlen=_KEPT)

    def sent(self, now_ms: float, names: Mapping[str, int]) -> None:
        """Tasks are on their way, so many of each name; if less than 0: they are not any more."""
        if self._mix.is_due(now_ms):
            self._mix.reckon(now_ms, self._waiting())
        runs = self._runs
        if runs is not None and not runs.issuperset(names):
            self._mix.sent({name: tasks for name, tasks in names.items() if name in runs})
        else:
            self._mix.sent(names)
        self._under_way += sum(names.values())

    def takes_s(self, name: str) -> float:
        """How long a task of that name takes there, as far as anybody knows."""
        return self._mix.takes_s(name)

    def answered(self, now_ms: float, rtt_ms: float, tasks: int, ready: Mapping[int, int]) -> None:
        """`tasks` were stored half a round trip ago, beside `ready` others by partition."""
        at_ms = now_ms - rtt_ms / 2
        self._advance(at_ms)
        if ready:
            self._answered_ms = now_ms
            waiting = self._ready()
            seen = self._partitions * sum(ready.values()) / len(ready)
            # Where most of it is held back, an answer tells of little else; heartbeats know better.
            if (seen or waiting) and self.held_back <= waiting / 2:
                variance = self._partitions * max(waiting, FEW) / len(ready)
                self._weigh(seen - waiting, variance)
        self._excess += tasks
        self._begin_anew_if_lost()
        self._under_way = max(0, self._under_way - tasks)
        self._own, self._own_at_ms = self._own_by(now_ms) + tasks, now_ms
        self._turn(self._own, now_ms)
        self._arrived.append((at_ms, tasks))

    def mustered(self, now_ms: float, rtt_ms: float, workers: Sequence[LiveWorker]) -> None:
        """Take the heartbeats as they were read half a round trip ago."""
        self._take(now_ms, rtt_ms, workers)
        self._begin_anew_if_lost()

    def _take(self, now_ms: float, rtt_ms: float, workers: Sequence[LiveWorker]) -> None:
        crew = self.crew = muster(workers)
        runs = frozenset[str]().union(*crew.served.values())
        self._runs = runs if runs and "*" not in runs else None
        told_ms = rtt_ms / 2 + crew.age_ms
        self._mix.mustered(now_ms, crew, self._waiting(), age_ms=told_ms)
        self._advance(now_ms - rtt_ms / 2)
        self._turn(self._own_by(now_ms), now_ms)
        at_ms = now_ms - rtt_ms / 2 - crew.age_ms
        if at_ms <= self._beat_ms:
            return  # no worker has said anything since
        if self._beat_ms == -math.inf:
            self._variance = _MOST_UNSURE  # whatever was thought before: now we are told
        self._beat_ms = at_ms
        while self._arrived and self._arrived[0][0] <= at_ms:
            self._arrived.popleft()
        later_s = (self._at_ms - at_ms) / SECOND_MS
        since = sum(tasks for _, tasks in self._arrived) - self._drain * later_s
        self._idle_beside = min(crew.ready, crew.free_slots)
        told = crew.ready - crew.free_slots + since
        if crew.free_slots or told > self._excess:
            self._weigh(told - self._excess, BEAT_VARIANCE + self._flow * later_s)
        else:
            self._excess = max(0.0, self._excess)
            self._sink(told, now_ms)

    def at(self, now_ms: float) -> Reckoned:
        """Return the load as reckoned for now."""
        passed_s = (now_ms - self._at_ms) / SECOND_MS
        excess, unsure_ms = self._excess, self._variance / self._flow * SECOND_MS
        if passed_s > 0:
            unsure_ms += passed_s * SECOND_MS
            excess = max(excess - self._drain * passed_s, -self.crew.slots)
        age_ms = now_ms - max(self._beat_ms, self._began_ms)
        age_ms = min(age_ms, unsure_ms)
        rate, service_s = self._pace()
        # What is held back takes no slot: there may be as many free ones beside it.
        held = self.held_back
        beside, excess = max(0.0, self._idle_beside - held), excess - held
        if excess > 0:
            return Reckoned(held + beside + excess, beside, age_ms, rate, service_s)
        free_slots = beside - excess
        if held:
            free_slots = min(free_slots, self.crew.slots)
        return Reckoned(held + beside, free_slots, age_ms, rate, service_s)

    def _ready(self) -> float:
        """Tasks that are ready by now: what is held back, and what has found no free slot."""
        held = self.held_back
        beside = max(0.0, self._idle_beside - held)
        return held + max(0.0, self._excess - held + beside)

    def _begin_anew_if_lost(self) -> None:
        """Know nothing, rather than reckon on with what is no number or cannot be."""
        if abs(self._excess) + self._idle_beside <= _MOST_TASKS and self._variance < math.inf:
            return
        self._excess, self._variance, self._idle_beside = 0.0, NOTHING_KNOWN, 0.0
        self._beat_ms = -math.inf  # the next heartbeats are the first

    def _pace(self) -> tuple[float, float]:
        """Completions a second and seconds of an attempt, of tasks like those that are there."""
        crew, service_s = self.crew, self._mix.service_s
        if service_s > 0 < crew.service_s:
            return crew.rate * crew.service_s / service_s, service_s
        return crew.rate, service_s

    def _capacity(self) -> float:
        """Such tasks a second that it could complete."""
        rate, service_s = self._pace()
        return max(rate, self.crew.slots / (service_s or SERVICE_S))

    def _waiting(self) -> float:
        """Tasks that have not begun and will, those on their way included."""
        return max(0.0, self._excess + self._under_way - self.held_back)

    def _advance(self, at_ms: float) -> None:
        """Bring the estimate up to `at_ms`; never back."""
        passed_s = (at_ms - self._at_ms) / SECOND_MS
        if passed_s <= 0:
            return
        self._excess = max(self._excess - self._drain * passed_s, -self.crew.slots)
        self._variance = min(_MOST_UNSURE, self._variance + self._flow * passed_s)
        self._at_ms = at_ms

    def _weigh(self, surprise: float, variance: float) -> None:
        gain = self._variance / (self._variance + variance)
        self._excess += gain * surprise
        self._variance *= 1 - gain

    def _sink(self, told: float, now_ms: float) -> None:
        """Come down to what workers saw, the more the longer no answer has told of the queue.

        A queue to which all have stopped sending shrinks as fast as it is worked off. What came
        since the workers' looks is taken to be what they completed; an answer newer than these
        looks knows better.
        """
        rate, _ = self._pace()
        unseen = rate * self.crew.looked_ms / SECOND_MS
        surprise = told + unseen - self._excess
        unheard = rate * (now_ms - self._answered_ms) / SECOND_MS - unseen
        if surprise < 0 < unheard:
            self._excess += surprise * unheard**2 / (unheard**2 + unseen**2 + BEAT_VARIANCE)

    def _own_by(self, now_ms: float) -> float:
        """Tasks that we have sent, older ones counting less."""
        if not self._own:
            return 0.0
        return self._own * math.exp((self._own_at_ms - now_ms) / OWN_MS)

    def _turn(self, own: float, now_ms: float) -> None:
        """Reckon anew how fast things change, `own` tasks of ours being in the average."""
        watched_ms = max(SECOND_MS, now_ms - self._began_ms)
        mine = own / (OWN_MS / SECOND_MS)
        if watched_ms < 5 * OWN_MS:  # not yet an average over OWN_MS
            mine /= 1 - math.exp(-watched_ms / OWN_MS)
        rate, _ = self._pace()
        self._drain = min(mine, self._capacity())
        self._flow = max(LEAST_FLOW, rate + max(0.0, rate - mine))
