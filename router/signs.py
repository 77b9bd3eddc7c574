"""What one router has seen of one region, folded into the numbers that routing reads.

No loop and no clock in here: each event comes with the router's monotonic time in ms.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tradewind.fleet import Health
from tradewind.limits import SECOND_MS, WORKER_GONE_MS
from tradewind.task import LiveWorker
from tradewind.view import RegionView

DECAY_MS: Final = 10 * SECOND_MS  # of RTT and success rate (Linkerd and Envoy, routing.md 2.1)
UNKNOWN_RTT_MS: Final = 100.0  # before the first measurement (routing.md 2.1)
HOME_RTT_MS: Final = 1.0  # the same, for the router's own region
BAD_CALLS: Final = 5  # infrastructure errors in a row that mean down (routing.md 2.7)
FULL_FOR_MS: Final = 5 * SECOND_MS  # after a refusal for memory


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
    """Share of good calls, older ones counting less; starts as one good call."""

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
        self._decay(now_ms)
        return (self._good + 1) / (self._good + self._bad + 1)

    def _decay(self, now_ms: float) -> None:
        kept = math.exp(-max(0.0, now_ms - self._at_ms) / DECAY_MS)
        self._good, self._bad, self._at_ms = self._good * kept, self._bad * kept, now_ms


class Verdict:
    """Down or up, by this router's own evidence; see `Health` for the thresholds."""

    def __init__(self, rules: Health) -> None:
        """Unknown until the first probe."""
        self._rules = rules
        self._good_probes, self._bad_probes, self._bad_calls = 0, 0, 0
        self._good_at_ms = -math.inf
        self.down, self.known = False, False

    def probed(self, now_ms: float, *, ok: bool) -> None:
        """Count a probe: `down_after` bad ones in a row close, `up_after` good ones open."""
        if ok:
            self._good_probes, self._bad_probes, self._good_at_ms = self._good_probes + 1, 0, now_ms
            self.known = True
            if self.down and self._good_probes >= self._rules.up_after:
                self.down, self._bad_calls = False, 0
        else:
            self._good_probes, self._bad_probes = 0, self._bad_probes + 1
            self._close_if(self._bad_probes >= self._rules.down_after)

    def called(self, now_ms: float, *, ok: bool) -> None:
        """Count a call of our own; `ok` is False for infrastructure errors only."""
        if ok:
            self._bad_calls = 0
            if not self.down:
                self._good_at_ms, self.known = now_ms, True
        else:
            self._bad_calls += 1
            self._close_if(self._bad_calls >= BAD_CALLS)

    def at(self, now_ms: float) -> Literal["HEALTHY", "DEGRADED", "DOWN", "UNKNOWN"]:
        """Return the verdict; nothing good for `stale_after` or a bad sign since is DEGRADED."""
        if self.down:
            return "DOWN"
        if not self.known:
            return "UNKNOWN"
        stale = now_ms - self._good_at_ms > self._rules.stale_after_ms
        return "DEGRADED" if stale or self._bad_probes or self._bad_calls else "HEALTHY"

    def _close_if(self, enough: bool) -> None:  # noqa: FBT001 - reads as a sentence
        if enough and not self.down:
            self.down, self.known, self._good_probes = True, True, 0


class Depth:
    """Ready tasks of a region: for each partition the newest number that anybody reported."""

    def __init__(self) -> None:
        """Nothing is known to wait."""
        self.total = 0
        self.at_ms = -math.inf  # when any report came in
        self._known: dict[int, tuple[float, int]] = {}  # partition -> (when, ready)
        self._stamps: dict[int, int] = {}  # partition -> server time of the last heartbeat's number

    def note(self, now_ms: float, depths: Mapping[int, int]) -> None:
        """Take the load report of an enqueue."""
        self.at_ms = now_ms
        for partition, ready in depths.items():
            self._set(partition, now_ms, ready)

    def note_heartbeats(self, now_ms: float, workers: Sequence[LiveWorker]) -> None:
        """Take what workers saw. A number is news if its server time is, as old as its heartbeat.

        A worker saw it after its heartbeat before, so the age is right to one heartbeat.
        """
        self.at_ms = now_ms
        newest: dict[int, tuple[int, int, int]] = {}
        for worker in workers:
            for partition, (ready, stamp) in worker.heartbeat.depths.items():
                newest[partition] = max(
                    newest.get(partition, (0, 0, 0)), (stamp, -worker.age_ms, ready)
                )
        for partition, (stamp, minus_age_ms, ready) in newest.items():
            if self._stamps.get(partition) != stamp:
                self._stamps[partition] = stamp
                self._set(partition, now_ms + minus_age_ms, ready)

    def _set(self, partition: int, at_ms: float, ready: int) -> None:
        known_at_ms, known = self._known.get(partition, (-math.inf, 0))
        if at_ms >= known_at_ms:
            self._known[partition] = (at_ms, ready)
            self.total += ready - known


@dataclass(frozen=True, slots=True)
class Crew:
    """The live workers of a region, added up."""

    workers: tuple[LiveWorker, ...] = ()
    slots: int = 0
    free_slots: int = 0
    rate: float = 0.0
    service_s: float = 0.0
    served: Mapping[str, frozenset[str]] | None = None


def muster(workers: Sequence[LiveWorker]) -> Crew:
    """Add up the workers that gave a sign of life in the last WORKER_GONE_MS."""
    live = tuple(w for w in workers if w.age_ms < WORKER_GONE_MS)
    beats = [w.heartbeat for w in live]
    timed = [(beat.service_s, beat.slots) for beat in beats if beat.service_s > 0]
    served: dict[str, frozenset[str]] = {}
    for beat in beats:
        for queue in beat.queues:
            served[queue] = served.get(queue, frozenset()) | frozenset(beat.handlers)
    return Crew(
        workers=live,
        slots=sum(beat.slots for beat in beats),
        free_slots=sum(max(0, beat.slots - beat.busy) for beat in beats),
        rate=sum(beat.rate for beat in beats),
        service_s=sum(s * n for s, n in timed) / max(1, sum(n for _, n in timed)),
        served=served,
    )


class Signs:
    """All that one router has seen of one region."""

    def __init__(self, name: str, rules: Health, *, prior_rtt_ms: float, now_ms: float) -> None:
        """`now_ms` is when this router began to look."""
        self.name = name
        self.rtt = PeakRtt(prior_rtt_ms)
        self.verdict = Verdict(rules)
        self.crew = Crew()
        self._ok = SuccessRate()
        self._depth = Depth()
        self._in_flight = 0
        self._served_at_ms = now_ms
        self._full_until_ms = -math.inf

    def probed(self, now_ms: float, rtt_ms: float | None) -> None:
        """Take a probe's round trip, or None for a probe that failed."""
        self.verdict.probed(now_ms, ok=rtt_ms is not None)
        self._ok.add(now_ms, ok=rtt_ms is not None)
        if rtt_ms is not None:
            self.rtt.add(now_ms, rtt_ms)

    def called(self, now_ms: float, *, ok: bool) -> None:
        """Take the outcome of a call; `ok` is False for infrastructure errors only."""
        self.verdict.called(now_ms, ok=ok)
        self._ok.add(now_ms, ok=ok)

    def mustered(self, now_ms: float, workers: Sequence[LiveWorker]) -> None:
        """Take the heartbeats of the region."""
        self.crew = muster(workers)
        self._depth.note_heartbeats(now_ms, self.crew.workers)
        if self.crew.workers:
            self._served_at_ms = now_ms

    def sent(self, tasks: int) -> None:
        """Count tasks as on their way."""
        self._in_flight += tasks

    def answered(self, now_ms: float, tasks: int, depths: Mapping[int, int]) -> None:
        """Count them as arrived, or lost, and take the load report that came back."""
        self._in_flight -= tasks
        if depths:
            self._depth.note(now_ms, depths)

    def filled(self, now_ms: float) -> None:
        """Take a refusal for memory."""
        self._full_until_ms = now_ms + FULL_FOR_MS

    def view(self, now_ms: float, *, rtt_ms: float | None = None) -> RegionView:
        """Return the region as it looks now; `rtt_ms` replaces the measured round trip."""
        crew = self.crew
        idle_ms = 0.0 if crew.workers else now_ms - self._served_at_ms
        age_ms = now_ms - self._depth.at_ms
        return RegionView(
            name=self.name,
            rtt_ms=self.rtt.ms if rtt_ms is None else rtt_ms,
            ok=self._ok.at(now_ms),
            health=self.verdict.at(now_ms),
            depth=max(0, self._depth.total),
            in_flight=self._in_flight,
            slots=crew.slots,
            free_slots=crew.free_slots,
            rate=crew.rate,
            service_s=crew.service_s,
            age_s=age_ms / SECOND_MS if math.isfinite(age_ms) else 0.0,
            full=now_ms < self._full_until_ms,
            served=crew.served or {},
            unserved_for_s=idle_ms / SECOND_MS,
        )
