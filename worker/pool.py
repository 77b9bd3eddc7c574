"""What one worker process is, and how busy it is."""

import math
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tradewind.clock import Clock
from tradewind.crew import LATELY_MS
from tradewind.fleet import Fleet
from tradewind.handlers import App
from tradewind.limits import SECOND_MS
from tradewind.task import Heartbeat
from worker.gate import Gate
from worker.timings import Timings

# Times longer than what completed lately, from which what runs now is of another kind: the rate is
# no measure of it then. The mean of ten is twice the true one by chance one time in 2,000.
_OTHER_KIND: Final = 2.0


@dataclass(slots=True)
class Pool:
    """The identity and the limits of one worker process.

    `fleet` and `queues` follow the policy file: read them at each use. Others may hold them for the
    length of one step. Without `chosen_queues` it serves those of the file.
    """

    worker_id: str
    region: str
    queues: tuple[str, ...]
    concurrency: int
    fleet: Fleet
    app: App
    version: str
    started_ms: int
    chosen_queues: bool = True
    gate: Gate = field(default_factory=Gate)
    allow_eviction: bool = False  # move tasks also to where Redis may delete them

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet."""
        self.fleet = fleet
        if not self.chosen_queues:
            self.queues = queues_of(fleet)

    @property
    def handlers(self) -> tuple[str, ...]:
        """Task names it can run."""
        return tuple(sorted(self.app.handlers))

    @property
    def open_queues(self) -> tuple[str, ...]:
        """Its queues of which tasks may start."""
        gate = self.gate
        if gate.is_shut:
            return ()
        paused = gate.paused
        return tuple(q for q in self.queues if q not in paused) if paused else self.queues

    @property
    def lease_ms(self) -> Mapping[str, int]:
        """Lease by queue, of those of which tasks may start."""
        return {queue: self.fleet.queue(queue).lease_ms for queue in self.open_queues}

    @property
    def starvation_ms(self) -> Mapping[str, int]:
        """How long a ready task waits at most behind a higher priority, by queue."""
        return {queue: self.fleet.queue(queue).starvation_after_ms for queue in self.queues}


def queues_of(fleet: Fleet) -> tuple[str, ...]:
    """The queues of a worker that was not given any."""
    return tuple(dict.fromkeys(("default", *fleet.queues)))


def new_worker_id(region: str) -> str:
    """A name for this process that no other has, and that tells people where it runs."""
    host = socket.gethostname().partition(".")[0][:40]
    return f"{region}/{host}/{os.getpid()}/{secrets.token_hex(4)}"


@dataclass(slots=True)
class Pace:
    """Busy slots, completions a second and mean service time of this process.

    Written by the main loop, read by the guard's thread: single values, so no lock.
    """

    pool: Pool
    clock: Clock
    busy: int = 0
    depths: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    #: Names of the attempts that are in their handlers, in slots, and when they began, in monotonic
    #: ms. Is called in the guard's thread.
    running: Callable[[], Sequence[tuple[str, float]]] = tuple[tuple[str, float]]
    _timings: Timings = field(default_factory=Timings)
    # Attempts that ended lately, their seconds in handlers, and as of when that is.
    _ended: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def ended(self, ended: Sequence[tuple[str, float]]) -> None:
        """Attempts ended just now: of each its name and its seconds in the handler."""
        now_ms = self.clock.monotonic_ms()
        count, took_s, at_ms = self._ended
        kept = math.exp((at_ms - now_ms) / LATELY_MS)
        took_s = took_s * kept + sum([one_s for _, one_s in ended])
        self._ended = (count * kept + len(ended), took_s, now_ms)
        self._timings.ended(now_ms, ended)

    def beat(self) -> Heartbeat:
        """The heartbeat as of now."""
        pool, now_ms = self.pool, self.clock.monotonic_ms()
        service_s, timings = self._timings.told(now_ms, self.running())
        return Heartbeat(
            worker_id=pool.worker_id,
            region=pool.region,
            queues=pool.queues,
            handlers=pool.handlers,
            slots=pool.concurrency,
            busy=self.busy,
            rate=self._rate(now_ms, service_s),
            service_s=service_s,
            started_ms=pool.started_ms,
            version=pool.version,
            depths=self.depths.copy(),
            timings=timings,
        )

    def _rate(self, now_ms: float, service_s: float) -> float:
        """Completions a second, lately; fewer if tasks take far longer now."""
        count, took_s, at_ms = self._ended
        rate = count * math.exp((at_ms - now_ms) / LATELY_MS) * SECOND_MS / LATELY_MS
        work_s = count * service_s / _OTHER_KIND
        return rate * took_s / work_s if work_s > took_s else rate
