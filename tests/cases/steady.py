"""Submits at a steady rate through the SDK, and what became of each."""

import asyncio
import re
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.cases.clustered import Clustered
from tests.flow.lab import Lab
from tradewind import Client, TaskOptions
from tradewind.errors import TradewindError

DEADLINE_S = 30.0  # the SDK's own
# What only a client of Redis should ever read.
_RAW = re.compile(
    r"\b(MOVED|ASK|TRYAGAIN|CROSSSLOT|NOSCRIPT|READONLY|LOADING|CLUSTERDOWN|MASTERDOWN|ERR)\b"
)


@dataclass(frozen=True, slots=True)
class Call:
    """One submit. Either `task_id` or `error`; times are monotonic seconds."""

    number: int
    began_at: float
    ended_at: float
    task_id: str = ""
    error: TradewindError | None = None


@dataclass(slots=True)
class Steady:
    """The load: of four tasks two without a key, one with an idempotency and an affinity key."""

    client: Client
    calls: list[Call] = field(default_factory=list[Call])
    _mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    _sending: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])
    _count: int = 0

    async def run(self, rate: float) -> None:
        """Submit until cancelled, `rate` a second whatever becomes of them."""
        begin = time.monotonic()
        while True:
            early_s = begin + self._count / rate - time.monotonic()
            if early_s > 0:
                await asyncio.sleep(early_s)
            task = asyncio.create_task(self._submit(self._count))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
            self._count += 1

    async def answered(self) -> None:
        """Wait until each has its answer."""
        while self._sending:
            await asyncio.gather(*self._sending)

    async def _submit(self, number: int) -> None:
        options: TaskOptions = {}
        if number % 4 == 2:
            options = {"idempotency_key": f"{self._mark}-{number}"}
        elif number % 4 == 3:
            options = {"affinity_key": f"user-{number}"}
        began_at = time.monotonic()
        try:
            receipt = await self.client.submit(
                "sleep", {"seconds": 0}, deadline=DEADLINE_S, **options
            )
        except TradewindError as error:
            self.calls.append(Call(number, began_at, time.monotonic(), error=error))
        else:
            self.calls.append(Call(number, began_at, time.monotonic(), receipt.task_id))

    @property
    def kept(self) -> dict[str, Call]:
        """Accepted tasks by id."""
        return {call.task_id: call for call in self.calls if call.task_id}

    @property
    def failed(self) -> list[Call]:
        """Those that ended with an error."""
        return [call for call in self.calls if call.error is not None]

    def refusals_are_ours(self) -> None:
        """Hold that what callers got may be repeated, and is in our words."""
        errors = [call.error for call in self.calls if call.error is not None]
        assert [error for error in errors if not error.retryable] == []
        assert [str(error) for error in errors if _RAW.search(str(error))] == []

    def figures(self, since: float, until: float) -> str:
        """How long calls took that began then."""
        took = sorted(c.ended_at - c.began_at for c in self.calls if since <= c.began_at < until)
        if not took:
            return "no calls"
        half, most = took[len(took) // 2], took[len(took) * 99 // 100]
        return (
            f"{len(took)} calls, p50 {half * 1000:.0f} ms, p99 {most * 1000:.0f} ms, "
            f"longest {took[-1] * 1000:.0f} ms"
        )


@asynccontextmanager
async def steady(region: Clustered, rate: float) -> AsyncGenerator[Steady]:
    """Submit for the length of a block; all have their answers afterwards."""
    async with region.client() as client:
        load = Steady(client)
        running = asyncio.create_task(load.run(rate))
        try:
            yield load
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await load.answered()


async def all_have_run(lab: Lab, load: Steady) -> None:
    """Wait for the end of every accepted task."""
    kept = set(load.kept)

    async def they_have() -> bool:
        return {line.task_id for line in lab.lines(event="done")}.issuperset(kept)

    await lab.until(they_have)


def ran_twice(lab: Lab) -> dict[str, int]:
    """Tasks with more than one start."""
    starts = Counter(line.task_id for line in lab.lines(event="start"))
    return {task_id: number for task_id, number in starts.items() if number > 1}


def unknown(lab: Lab, load: Steady) -> set[str]:
    """What has run although nobody was told that it was accepted."""
    return {line.task_id for line in lab.lines(event="start")} - set(load.kept)


def waits(lab: Lab, load: Steady) -> dict[str, float]:
    """Seconds from each task's acceptance to its start."""
    kept = load.kept
    return {
        line.task_id: line.at - kept[line.task_id].ended_at
        for line in lab.lines(event="start")
        if line.task_id in kept
    }
