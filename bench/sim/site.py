"""One region: its store, which takes tasks in order, and its workers, who run them.

Busy slots, rates, service times and the depths that workers have seen are kept by the product's
own `worker.pool.Pace`; its heartbeats are what routers read.
"""

from collections import deque
from collections.abc import Callable

from bench.sim.engine import Engine, SimulatedClock
from bench.sim.model import HANDLER, QUEUE, Settings, Task
from bench.sim.outages import GOOD, Condition
from tradewind.fleet import Fleet
from tradewind.handlers import App
from tradewind.limits import SWEEP_EVERY_MS
from tradewind.task import Heartbeat, LiveWorker
from worker.pool import Pace, Pool

Started = Callable[[Task, "Site"], None]


class _Worker:
    """One worker process. A killed one's runs count no more: that is what `life` tells."""

    def __init__(self, pool: Pool, clock: SimulatedClock) -> None:
        self.pace = Pace(pool, clock)
        self.slots = self.free = pool.concurrency
        self.life = 0
        self.is_alive = True
        #: When each began, in ms; 0: it has ended, but the store was away.
        self.running: dict[Task, float] = {}
        self.pace.running = self._in_handlers

    def _in_handlers(self) -> list[tuple[str, float]]:
        return [(HANDLER, began_ms) for began_ms in self.running.values() if began_ms]


class Site:
    """A region as it truly is."""

    def __init__(
        self, name: str, settings: Settings, fleet: Fleet, engine: Engine, on_start: Started
    ) -> None:
        """`on_start` hears of every task that starts for the first time."""
        self.name, self.condition = name, GOOD
        self.coming = 0  # tasks on their way here
        self.completed = 0
        self.drained_at_s = 0.0  # since when, if it is
        self.queue: deque[Task] = deque()
        self._engine, self._clock, self._on_start = engine, SimulatedClock(engine), on_start
        self._lease_s = fleet.default_queue.lease_ms / 1000
        self._ready = [0] * settings.partitions
        self._held: list[tuple[Task, _Worker, int]] = []  # ended while the store was away
        self._beats: dict[str, tuple[Heartbeat, int]] = {}
        app = App()
        app.task(HANDLER)(_handler)
        self._workers = [
            _Worker(
                Pool(f"{name}/{index}", name, (QUEUE,), slots, fleet, app, "sim", 0), self._clock
            )
            for index, slots in enumerate(_dealt(settings.slots, settings.workers))
        ]
        for index, worker in enumerate(self._workers):
            start_s = settings.report_s * index / len(self._workers)
            engine.at(start_s, self._beat, worker, settings.report_s)
        engine.after(SWEEP_EVERY_MS / 1000, self._sweep)

    @property
    def slots(self) -> int:
        """Slots of the live workers."""
        return sum(worker.slots for worker in self._workers if worker.is_alive)

    @property
    def free_slots(self) -> int:
        """Free slots of the live workers."""
        return sum(worker.free for worker in self._workers if worker.is_alive)

    @property
    def held(self) -> int:
        """Tasks here that have not ended."""
        return len(self.queue) + sum(len(worker.running) for worker in self._workers)

    def become(self, condition: Condition) -> None:
        """Take on a condition."""
        was_serving = self._serves
        if condition.drained and not self.condition.drained:
            self.drained_at_s = self._engine.now_s
        self.condition = condition
        alive = round(condition.workers * len(self._workers))
        for index, worker in enumerate(self._workers):
            if worker.is_alive != (index < alive):
                self._revive(worker) if index < alive else self._kill(worker)
        if self._serves and not was_serving:
            held, self._held = self._held, []
            for task, worker, life in held:
                self._end(task, worker, life)
        self._feed()

    def store(self, task: Task) -> int:
        """Take a task; returns what the enqueue script reports: what was ready in its partition.

        The same task a second time changes nothing.
        """
        ready = self._ready[task.partition]
        if not task.stored_in:
            task.stored_in = self.name
            self._ready[task.partition] += 1
            self.queue.append(task)
        self._feed()
        return ready

    def heartbeats(self) -> list[LiveWorker]:
        """Return what a router reads."""
        now_ms = self._clock.now_ms()
        return [LiveWorker(beat, now_ms - at_ms) for beat, at_ms in self._beats.values()]

    @property
    def _serves(self) -> bool:
        """Whether the workers reach the store: those of a region that is cut off do."""
        return self.condition.reach != "refuses"

    def _feed(self) -> None:
        if not self._serves:
            return
        while self.queue:
            worker = max(self._workers, key=_room)
            if _room(worker) <= 0:
                return
            task = self.queue.popleft()
            self._ready[task.partition] -= 1
            worker.pace.depths[task.partition] = (self._ready[task.partition], self._clock.now_ms())
            self._run(task, worker)

    def _run(self, task: Task, worker: _Worker) -> None:
        worker.free -= 1
        worker.pace.busy += 1
        worker.running[task] = self._clock.monotonic_ms()
        if task.started_s < 0:
            task.started_s = self._engine.now_s
            self._on_start(task, self)
        self._engine.after(task.service_s, self._end, task, worker, worker.life)

    def _end(self, task: Task, worker: _Worker, life: int) -> None:
        if worker.life != life:
            return
        if not self._serves:
            worker.running[task] = 0.0
            self._held.append((task, worker, life))
            return
        del worker.running[task]
        worker.free += 1
        worker.pace.busy -= 1
        worker.pace.ended(((HANDLER, task.service_s),))
        self.completed += 1
        self._feed()

    def _kill(self, worker: _Worker) -> None:
        """What it ran waits again once the leases have ended."""
        lost, worker.running = worker.running, {}
        worker.is_alive, worker.life, worker.free = False, worker.life + 1, 0
        worker.pace.busy = 0
        for task in sorted(lost, key=lambda each: each.started_s):
            self._engine.after(self._lease_s, self._again, task)

    def _revive(self, worker: _Worker) -> None:
        worker.is_alive, worker.free = True, worker.slots

    def _again(self, task: Task) -> None:
        self._ready[task.partition] += 1
        self.queue.appendleft(task)
        self._feed()

    def _beat(self, worker: _Worker, every_s: float) -> None:
        if worker.is_alive and self._serves:
            beat = worker.pace.beat()
            self._beats[beat.worker_id] = (beat, self._clock.now_ms())
        self._engine.after(every_s, self._beat, worker, every_s)

    def _sweep(self) -> None:
        """Let the workers see every partition, as the product's sweep does."""
        live = [worker for worker in self._workers if worker.is_alive]
        if live and self._serves:
            now_ms = self._clock.now_ms()
            for partition, ready in enumerate(self._ready):
                live[partition % len(live)].pace.depths[partition] = (ready, now_ms)
        self._engine.after(SWEEP_EVERY_MS / 1000, self._sweep)


def _room(worker: _Worker) -> int:
    return worker.free if worker.is_alive else 0


def _handler() -> None:
    """Nothing runs in a simulation; heartbeats only name it."""


def _dealt(slots: int, workers: int) -> list[int]:
    return [slots // workers + (index < slots % workers) for index in range(workers)]
