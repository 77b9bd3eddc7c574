"""The test client: an app's handlers and its callers in one event loop, no server anywhere."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Final, Self, Unpack

from tradewind import ids, wire
from tradewind.client.core import completed
from tradewind.client.specs import Args, TaskOptions, TaskRequest
from tradewind.client.views import Cancellation, Receipt, Route, TaskView, task_of
from tradewind.errors import InvalidTask, TradewindError, UnknownTask, WaitOver
from tradewind.fleet import Fleet, QueuePolicy, RedisTarget, Region
from tradewind.handlers import App
from tradewind.limits import REQUEST_ID_WINDOW_MS
from tradewind.state import State
from tradewind.task import Cancelled, CancelRequested, Record
from tradewind.testing.bench import Bench
from tradewind.testing.clock import TestClock
from tradewind.testing.desk import Desk
from tradewind.testing.memory import MemoryStore

_log = logging.getLogger(__name__)
_WORKER: Final = "test"
_OVER: Final = (
    "the test's clock was moved on to the time limit of a handler that does not end by itself; "
    "TestClient(app, patience=...) lets handlers take longer"
)
_LEASE_MS: Final = 30 * 24 * 3_600_000  # nobody takes a test's tasks from it
CONFIRMED_WITHIN_S: Final = 2.0  # real time for a handler to stop, as a router gives it


class CannotRun(Exception):
    """The task cannot run now, and the message says what it waits for."""


class TestClient:
    """`Client` for tests of an app: the same calls, the same errors, no router and no Redis.

        async with TestClient(app) as client:
            receipt = await client.submit("email.send", {"to": "a@example.org"})
            task = await client.run(receipt.task_id)
            assert task.result == {"sent": True}

    Nothing runs by itself: `run` makes one attempt at one task, `drain` runs all that is due, and
    `wait` and `watch` run what is due and then move the clock on, until their task has ended. Time
    stands still otherwise: `advance` it, and delays, retries, expiries and time limits pass.

    A handler that runs has `patience` seconds of real time before it is taken for one that does not
    end by itself: then `wait` and `watch` move the clock on, to its time limit if nothing comes
    before, and `run` and `drain` raise CannotRun. They begin anew whenever an attempt begins, ends
    or reports progress and whenever the clock is moved; a blocked event loop uses none.

    Handlers run for real: typed arguments, hooks, Retry, Reject, results as they are stored. A
    plain `def` runs in a thread, `isolate=True` included. Retries wait the shortest time that their
    backoff allows. There is one region, so a dead task is dead for good.
    """

    __test__ = False  # no test case, whatever pytest thinks of its name

    def __init__(
        self,
        app: App,
        *,
        fleet: Fleet | None = None,
        region: str = "",
        queues: Mapping[str, QueuePolicy] | None = None,
        tenant: str = "",
        clock: TestClock | None = None,
        patience: float = 2.0,
    ) -> None:
        """`queues` by name, `default` for the others; or a whole `fleet`, as from regions.yaml.

        `region` of the fleet is where the test stands, its first one if not given. Raises TypeError
        for an app with a handler that no task could match, ValueError for a region that is not in
        the fleet and a `patience` that is not over 0.
        """
        if not patience > 0:
            raise ValueError(f"patience must be over 0 s, not {patience}")
        app.check()
        self.app, self.clock = app, clock or TestClock()
        self._fleet = replace(fleet or _one_region(region or "test", queues or {}), partitions=1)
        here = region or next(iter(self._fleet.regions))
        if here not in self._fleet.regions:
            raise ValueError(
                f"{here} is not a region of the fleet: {', '.join(self._fleet.regions)}"
            )
        self.store = MemoryStore(here, self._fleet, self.clock)
        self._desk = Desk(self.store, self._fleet, self.clock, app.handlers)
        self._bench = Bench(app, self.store, self._fleet, self.clock, self._desk.free_key)
        self._patience_s = patience
        self._defaults: TaskOptions = {"tenant": tenant} if tenant else {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Have what still runs stopped; a plain handler that does not listen is left behind."""
        await self._bench.close()

    async def connect(self, timeout: float = 5.0) -> None:
        """There is nothing to connect to."""

    # --- as Client

    async def submit(
        self,
        name: str,
        args: Args = None,
        *,
        deadline: float | None = None,
        **options: Unpack[TaskOptions],
    ) -> Receipt:
        """Store one task; it runs when the test says so. Raises as Client.submit."""
        del deadline
        return await self._desk.submit(name, args, {**self._defaults, **options})

    async def submit_many(
        self, requests: Iterable[TaskRequest], *, deadline: float | None = None
    ) -> list[Receipt | TradewindError]:
        """Store many tasks, each on its own: its receipt or its error, in the given order."""
        answers: list[Receipt | TradewindError] = []
        for request in requests:
            try:
                answers.append(
                    await self.submit(
                        request.name, request.args, deadline=deadline, **request.options
                    )
                )
            except TradewindError as error:
                answers.append(error)
        return answers

    async def get(self, task_id: str, *, deadline: float | None = None) -> TaskView:
        """Give the task with payload and result. Raises UnknownTask."""
        del deadline
        if not ids.is_task_id(task_id):
            raise InvalidTask.field("task_id", str(ids.MalformedTaskId(task_id)))
        found = await self.store.read(task_id)
        if not isinstance(found, Record):
            raise UnknownTask(task_id)
        return task_of(wire.task(found, whole=True))

    async def wait(self, task_id: str, timeout: float | None = None) -> TaskView:
        """Run what is due and move the clock on, until the task has completed.

        `timeout` counts by the test's clock, which moves on once nothing else can happen: no task
        is due, and what runs has had its `patience`. Raises TaskDead, TaskCancelled, TaskExpired,
        WaitOver, after which an attempt goes on; CannotRun if nothing could ever end the task.
        """
        until_ms = float("inf") if timeout is None else self.clock.now_ms() + timeout * 1000
        while not (view := await self.get(task_id)).settled:
            if self.clock.now_ms() >= until_ms:
                raise WaitOver(task_id, timeout or 0.0)
            await self._step(task_id, until_ms)
        return completed(view)

    async def watch(self, task_id: str) -> AsyncGenerator[TaskView, None]:
        """Give the task now and at every change, as `wait` runs it, until it is settled."""
        await self.store.watch(task_id)
        last = await self.get(task_id)
        yield last
        changes = self.store.changes()
        change = asyncio.ensure_future(anext(changes))
        step: asyncio.Future[None] | None = None
        try:
            while not last.settled:
                step = step or asyncio.ensure_future(self._step(task_id, float("inf")))
                await asyncio.wait({step, change}, return_when=asyncio.FIRST_COMPLETED)
                if change.done():
                    change = asyncio.ensure_future(anext(changes))
                if step.done():
                    step.result()
                    step = None
                view = await self.get(task_id)
                if view != last:
                    yield view
                last = view
        finally:
            for left in [change, step] if step is not None else [change]:
                left.cancel()
                await asyncio.gather(left, return_exceptions=True)

    async def explain(
        self,
        name: str,
        args: Args = None,
        *,
        deadline: float | None = None,
        **options: Unpack[TaskOptions],
    ) -> Route:
        """Tell where such a task would go. Stores nothing. Raises as `submit`."""
        del deadline
        return self._desk.explain(name, args, {**self._defaults, **options})

    async def cancel(self, task_id: str, *, deadline: float | None = None) -> Cancellation:
        """Cancel a task; one that runs is told to stop. Raises UnknownTask.

        As a router does, it gives a handler 2 s of real time to stop, or `deadline` if that is
        less: `requested` says that it still runs then.
        """
        queue = (await self.get(task_id)).queue
        keep_ms = max(self._fleet.queue(queue).retention.completed_ms, REQUEST_ID_WINDOW_MS)
        answer = await self.store.cancel(task_id, retention_ms=keep_ms)
        if isinstance(answer, Cancelled):
            await self._desk.free_key(task_id)
        elif isinstance(answer, CancelRequested):
            within_s = CONFIRMED_WITHIN_S if deadline is None else deadline
            await self._bench.call_off(task_id, min(within_s, CONFIRMED_WITHIN_S))
        view = await self.get(task_id)
        asked = isinstance(answer, Cancelled | CancelRequested)
        return Cancellation(
            cancelled=asked and view.state is State.CANCELLED,
            requested=asked and not view.settled,
            task=view,
        )

    # --- what only a test does

    async def run(self, task_id: str) -> TaskView:
        """Make one attempt at the task, now, and give the task as it is then.

        Raises CannotRun if it is not due, has ended, or the app has no handler for it; and if the
        attempt does not end: it goes on then, until its time limit passes by `advance` or `wait`.
        """
        view = await self.get(task_id)
        await self._tidy()
        claim = None
        if view.name in self.app.handlers:
            claim = self.store.claim_one(task_id, worker_id=_WORKER, lease_ms=_LEASE_MS)
        if claim is None:
            raise CannotRun(self._why_not(await self.get(task_id)))
        if not await self._until_over(self._bench.start(claim)):
            raise CannotRun(self._goes_on(await self.get(task_id)))
        return await self.get(task_id)

    async def drain(self, *, limit: int = 10_000) -> int:
        """Run all that is due, and what it submits, until nothing is due; how many attempts.

        Raises CannotRun after `limit` attempts: handlers that submit each other have no end. And
        if an attempt does not end, once all that is due has begun beside it, as after `run`.
        """
        begun: list[asyncio.Task[None]] = []
        while len(begun) < limit:
            attempt = await self._start_next()
            if attempt is not None:
                begun.append(attempt)
                await self._until_over(attempt)
                continue
            left = [one for one in begun if not one.done()]
            if not left:
                return len(begun)
            if not await self._until_over(left[0]):
                raise CannotRun(self._goes_on(await self.get(left[0].get_name())))
        raise CannotRun(f"{limit} attempts were made and there is still something due")

    def advance(self, seconds: float | timedelta) -> None:
        """Move the clock on: what becomes due is run by `run`, `drain` or `wait`."""
        span = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        self.clock.advance(span.total_seconds() * 1000)

    async def dead_tasks(self) -> list[TaskView]:
        """Dead letters, oldest first."""
        records, _ = await self.store.dead_page(0, after="", limit=10**6)
        return [task_of(wire.task(record, whole=True)) for record in records]

    async def redrive(self, task_id: str) -> TaskView:
        """Make a dead task ready again. Raises CannotRun if it is not dead."""
        record = await self.store.read(task_id)
        if not isinstance(record, Record) or not await self.store.redrive(task_id, record.epoch):
            raise CannotRun(f"task {task_id} is not dead: it is {(await self.get(task_id)).state}")
        return await self.get(task_id)

    async def _start_next(self) -> "asyncio.Task[None] | None":
        """Begin an attempt at the first task that is due. None: there is none."""
        await self._tidy()
        batch = await self.store.claim(
            0,
            worker_id=_WORKER,
            lease_ms=dict.fromkeys(await self.store.counts(), _LEASE_MS),
            handlers=list(self.app.handlers),
            limit=1,
        )
        return self._bench.start(batch.claims[0]) if batch.claims else None

    async def _until_over(self, attempt: "asyncio.Task[None]") -> bool:
        """Wait for the attempt. False: it does not end by itself."""
        while not attempt.done():
            if await self._bench.rests(self._patience_s):
                return attempt.done()
        return True

    async def _tidy(self) -> None:
        """What has become due, or has expired, is so."""
        queues = list(await self.store.counts())
        while True:
            swept = await self.store.sweep(0, worker_id=_WORKER, queues=queues, courier=False)
            if not swept.promoted and not swept.expired:
                return

    async def _step(self, task_id: str, until_ms: float) -> None:
        """Have something happen: run what is due, else let an attempt end, else move the clock."""
        attempt = await self._start_next()
        if attempt is not None:
            await self._until_over(attempt)
        elif await self._bench.rests(self._patience_s):
            await self._skip(task_id, until_ms)

    async def _skip(self, task_id: str, until_ms: float) -> None:
        """Move the clock on to the next moment at which something happens."""
        next_ms = self.store.next_ms()
        if next_ms is None and until_ms == float("inf") and not self._bench.has_others():
            raise CannotRun(self._why_not(await self.get(task_id)))
        to_ms = min(until_ms, self._bench.limit_ms(), float("inf") if next_ms is None else next_ms)
        if to_ms == self._bench.limit_ms():
            _log.warning(_OVER, extra={"tasks": list(self._bench.running)})
        self.clock.advance(max(to_ms - self.clock.now_ms(), 0))

    def _goes_on(self, view: TaskView) -> str:
        left_s = (self._bench.limit_ms() - self.clock.now_ms()) / 1000
        return (
            f"task {view.task_id} ({view.name}) still runs after {self._patience_s:g} s of real "
            "time, and the test's clock stands still: client.wait(...) goes on to its time limit, "
            f"so does client.advance({left_s:g}), also beside this call; "
            "TestClient(app, patience=...) lets handlers take longer"
        )

    def _why_not(self, view: TaskView) -> str:
        task = f"task {view.task_id} ({view.name})"
        if view.settled:
            return f"{task} has ended: it is {view.state}"
        if view.state is State.PROCESSING:
            return f"{task} runs already"
        if view.next_attempt_at is not None:
            left_s = view.next_attempt_at.timestamp() - self.clock.now_ms() / 1000
            return f"{task} is due in {left_s:g} s: move on with client.advance({left_s:g})"
        known = ", ".join(self.app.handlers) or "none"
        return f"{task} has no handler in the app, which has {known}"


def _one_region(name: str, queues: Mapping[str, QueuePolicy]) -> Fleet:
    target = RedisTarget("standalone", ())
    default = queues.get("default", QueuePolicy())
    return Fleet(regions={name: Region(name, target)}, default_queue=default, queues=queues)
