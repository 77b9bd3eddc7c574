"""What one worker process is, and how busy it is."""

import math
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tradewind.clock import Clock
from tradewind.fleet import Fleet
from tradewind.handlers import App
from tradewind.task import Heartbeat

_RATE_WINDOW_MS: Final = 10_000  # EWMA of completions, as task.Heartbeat says
_SERVICE_WEIGHT: Final = 0.1  # of the newest attempt in the mean: about the last ten count


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
    def lease_ms(self) -> Mapping[str, int]:
        """Lease by queue."""
        return {queue: self.fleet.queue(queue).lease_ms for queue in self.queues}

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
    service_s: float = 0.0
    depths: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    _weight: float = 0.0
    _at_ms: float = 0.0

    def ended(self, took_s: Sequence[float]) -> None:
        """Attempts ended just now, after so many seconds in their handlers."""
        self._weight = self._decayed() + len(took_s)
        self._at_ms = self.clock.monotonic_ms()
        mean_s = self.service_s
        for one_s in took_s:
            mean_s += _SERVICE_WEIGHT * (one_s - mean_s) if mean_s else one_s
        self.service_s = mean_s

    @property
    def rate(self) -> float:
        """Completions a second, lately."""
        return self._decayed() * 1000 / _RATE_WINDOW_MS

    def beat(self) -> Heartbeat:
        """The heartbeat as of now."""
        pool = self.pool
        return Heartbeat(
            worker_id=pool.worker_id,
            region=pool.region,
            queues=pool.queues,
            handlers=pool.handlers,
            slots=pool.concurrency,
            busy=self.busy,
            rate=self.rate,
            service_s=self.service_s,
            started_ms=pool.started_ms,
            version=pool.version,
            depths=self.depths.copy(),
        )

    def _decayed(self) -> float:
        passed_ms = self.clock.monotonic_ms() - self._at_ms
        return self._weight * math.exp(-passed_ms / _RATE_WINDOW_MS)
