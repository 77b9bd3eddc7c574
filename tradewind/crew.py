"""The live workers of a region, added up: what routers and couriers read of heartbeats. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tradewind.limits import DAY_MS, HOUR_MS, SECOND_MS, WORKER_GONE_MS
from tradewind.task import Heartbeat, LiveWorker, Timing
from tradewind.view import RegionView

LATELY_MS: Final = 10 * SECOND_MS  # over which workers count what they began and completed
#: The name of what workers run that do not tell of names: those of an older release. No task's.
NAMELESS: Final = ""
# Bounds of what is believed, so that all that is reckoned from it is finite; own choice.
LEAST_S: Final = 1e-6  # of an attempt
MOST_S: Final = DAY_MS / SECOND_MS  # twice the longest timeout of a task
MOST_RATE: Final = 1e6  # tasks a second
_MOST_LATELY: Final = MOST_RATE * LATELY_MS / SECOND_MS


def seconds_of(told: float) -> float:
    """How long an attempt takes, within bounds; 0, which is unknown, of what is no time."""
    if LEAST_S <= told <= MOST_S:
        return float(told)
    return max(LEAST_S, min(MOST_S, told)) if told > 0 else 0.0


def bounded(told: float, most: float = MOST_RATE) -> float:
    """A rate or a count within bounds; 0 of what is no number."""
    if 0 < told <= most:
        return float(told)
    return most if told > most else 0.0


def lately_of(told: float) -> float:
    """How many attempts began in LATELY_MS, within bounds."""
    return bounded(told, _MOST_LATELY)


@dataclass(frozen=True, slots=True)
class Crew:
    """The live workers of a region, added up."""

    workers: tuple[LiveWorker, ...] = ()
    slots: int = 0
    free_slots: int = 0
    rate: float = 0.0
    service_s: float = 0.0
    timings: Mapping[str, Timing] = field(default_factory=dict[str, Timing])
    served: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    ready: int = 0  # tasks left behind by the last look at each partition
    age_ms: float = 0.0  # of its heartbeats on average, by slots
    looked_ms: float = 0.0  # how long before the last of these looks the average one was

    def view(self, name: str, rtt_ms: float, *, full: bool) -> RegionView:
        """Return the region as its workers alone describe it."""
        return RegionView(
            name,
            rtt_ms,
            depth=self.ready,
            slots=self.slots,
            free_slots=self.free_slots,
            rate=self.rate,
            service_s=self.service_s,
            full=full,
            served=self.served,
        )


def muster(workers: Sequence[LiveWorker]) -> Crew:
    """Add up the workers that gave a sign of life in the last WORKER_GONE_MS."""
    live = tuple(w for w in workers if w.age_ms < WORKER_GONE_MS)
    beats = [w.heartbeat for w in live]
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
        rate=bounded(sum(beat.rate for beat in beats)),
        service_s=_mean_s([(beat.service_s, beat.slots) for beat in beats]),
        timings=_timings(beats),
        served=served,
        ready=sum(max(0, ready) for _, ready in newest.values()),
        age_ms=sum(w.age_ms * w.heartbeat.slots for w in live) / max(1, slots),
        looked_ms=min(HOUR_MS, max(stamps) - sum(stamps) / len(stamps)),
    )


def _timings(beats: Sequence[Heartbeat]) -> Mapping[str, Timing]:
    told: dict[str, list[tuple[Timing, int]]] = {}
    for beat in beats:
        timings = beat.timings
        if not timings and beat.service_s > 0:
            timings = {NAMELESS: Timing(beat.service_s, beat.rate * LATELY_MS / SECOND_MS)}
        for name, timing in timings.items():
            told.setdefault(name, []).append((timing, beat.slots))
    return {
        name: Timing(
            _mean_s([(timing.mean_s, slots) for timing, slots in of_name]),
            lately_of(sum(timing.lately for timing, _ in of_name)),
        )
        for name, of_name in told.items()
    }


def _mean_s(told: Sequence[tuple[float, int]]) -> float:
    """Return the mean by slots of what is known: 0 if nothing is."""
    timed = [(mean_s, slots) for mean_s, slots in told if mean_s > 0]
    return seconds_of(sum(s * n for s, n in timed) / max(1, sum(n for _, n in timed)))
