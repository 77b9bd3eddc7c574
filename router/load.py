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
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tradewind.limits import SECOND_MS, WORKER_GONE_MS
from tradewind.policy.defaults import SERVICE_S
from tradewind.task import LiveWorker

OWN_MS: Final = 10 * SECOND_MS  # over which own tasks are averaged; as workers' completions
NOTHING_KNOWN: Final = 400.0  # variance, in tasks squared, before any report: some tens of tasks
_MOST_UNSURE: Final = 1e6  # the same, however long nothing is heard
BEAT_VARIANCE: Final = 4.0  # of heartbeats: they are written one after another
FEW: Final = 4.0  # tasks; of a region that seems idle an answer says little; by the simulator
LEAST_FLOW: Final = 1.0  # tasks/s; so that what is known of an idle region ages, too
_KEPT: Final = 4_096  # answered calls, until heartbeats are newer; one call carries many tasks


@dataclass(frozen=True, slots=True)
class Crew:
    """The live workers of a region, added up."""

    workers: tuple[LiveWorker, ...] = ()
    slots: int = 0
    free_slots: int = 0
    rate: float = 0.0
    service_s: float = 0.0
    served: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    ready: int = 0  # tasks left behind by the last look at each partition
    age_ms: float = 0.0  # of its heartbeats on average, by slots
    looked_ms: float = 0.0  # how long before the last of these looks the average one was

    @property
    def capacity(self) -> float:
        """Tasks a second that it could complete."""
        return max(self.rate, self.slots / (self.service_s or SERVICE_S))


def muster(workers: Sequence[LiveWorker]) -> Crew:
    """Add up the workers that gave a sign of life in the last WORKER_GONE_MS."""
    live = tuple(w for w in workers if w.age_ms < WORKER_GONE_MS)
    beats = [w.heartbeat for w in live]
    timed = [(beat.service_s, beat.slots) for beat in beats if beat.service_s > 0]
    served: dict[str, frozenset[str]] = {}
    newest: dict[int, tuple[int, int]] = {}  # partition -> (server time, ready)
    for beat in beats:
        for queue in beat.queues:
            served[queue] = served.get(queue, frozenset()) | frozenset(beat.handlers)
        for partition, (ready, stamp) in beat.depths.items():
            newest[partition] = max(newest.get(partition, (0, 0)), (stamp, ready))
    slots = sum(beat.slots for beat in beats)
    stamps = [stamp for stamp, _ in newest.values()] or [0]
    return Crew(
        workers=live,
        slots=slots,
        free_slots=sum(max(0, beat.slots - beat.busy) for beat in beats),
        rate=sum(beat.rate for beat in beats),
        service_s=sum(s * n for s, n in timed) / max(1, sum(n for _, n in timed)),
        served=served,
        ready=sum(ready for _, ready in newest.values()),
        age_ms=sum(w.age_ms * w.heartbeat.slots for w in live) / max(1, slots),
        looked_ms=max(stamps) - sum(stamps) / len(stamps),
    )


class Reckoned(NamedTuple):
    """The load as of now, without what is on its way."""

    depth: float  # ready tasks
    free_slots: float
    age_ms: float  # as uncertain as a full report of that age


class Load:
    """The estimate of one region by one router."""

    def __init__(self, partitions: int, now_ms: float) -> None:
        """`now_ms` is when this router began to look."""
        self.crew = Crew()
        self._partitions = partitions
        self._excess, self._variance, self._at_ms = 0.0, NOTHING_KNOWN, now_ms
        self._idle_beside = 0.0  # free slots beside ready tasks: they are for other queues
        self._began_ms, self._beat_ms = now_ms, -math.inf  # the time that heartbeats tell of
        self._own, self._own_at_ms = 0.0, now_ms
        self._answered_ms = now_ms  # when an answer told of the queue
        self._capacity = 0.0
        self._drain = 0.0  # tasks/s that end there and are not made up for by what others send
        # Arrivals and ends a second that nobody tells of: the variance of that is their number.
        self._flow = LEAST_FLOW
        self._arrived: deque[tuple[float, int]] = deque(maxlen=_KEPT)

    def answered(self, now_ms: float, rtt_ms: float, tasks: int, ready: Mapping[int, int]) -> None:
        """`tasks` were stored half a round trip ago, beside `ready` others by partition."""
        at_ms = now_ms - rtt_ms / 2
        self._advance(at_ms)
        if ready:
            self._answered_ms = now_ms
            waiting = max(0.0, self._excess + self._idle_beside)
            seen = self._partitions * sum(ready.values()) / len(ready)
            if seen or waiting:
                variance = self._partitions * max(waiting, FEW) / len(ready)
                self._weigh(seen - waiting, variance)
        self._excess += tasks
        self._own, self._own_at_ms = self._own_by(now_ms) + tasks, now_ms
        self._turn(self._own, now_ms)
        self._arrived.append((at_ms, tasks))

    def mustered(self, now_ms: float, rtt_ms: float, workers: Sequence[LiveWorker]) -> None:
        """Take the heartbeats as they were read half a round trip ago."""
        crew = self.crew = muster(workers)
        self._capacity = crew.capacity
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
        beside = self._idle_beside
        if excess > 0:
            return Reckoned(excess + beside, beside, age_ms)
        return Reckoned(beside, beside - excess, age_ms)

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
        rate = self.crew.rate
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
        rate = self.crew.rate
        self._drain = min(mine, self._capacity)
        self._flow = max(LEAST_FLOW, rate + max(0.0, rate - mine))
