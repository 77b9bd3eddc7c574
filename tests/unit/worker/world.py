"""Tasks and parts for tests that drive pieces of a worker against a real store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tradewind import codec, ids
from tradewind.clock import Clock, SystemClock
from tradewind.fleet import Fleet
from tradewind.handlers import App
from tradewind.store.region_store import RegionStore
from tradewind.task import Claim, Draft, NewTask, Priority
from tradewind.v1.task_pb2 import TaskSpec
from worker.children import Children
from worker.guard import Guard
from worker.pool import Pace, Pool
from worker.reach import Reach
from worker.runner import Hears

APP = Path(__file__).with_name("child_app.py")  # what children load
PLACE = 3  # the partition of every task here
KEEP_MS = 3_600_000


def a_task(index: int, *, expires_ms: int = 0) -> NewTask:
    packed = codec.pack(
        Draft(name="t", spec=TaskSpec(name="t").SerializeToString()),
        fingerprint=bytes(32),
        fence=(),
        traceparent="",
        birth_region="eu-west",
        deduplicated=False,
    )
    task_id = ids.mint(1_700_000_000_000, ids.region_code("eu-west"), PLACE, index)
    return NewTask(task_id, "default", "t", Priority.NORMAL, packed, expires_ms=expires_ms)


async def claims(store: RegionStore, number: int) -> list[Claim]:
    """`number` claimed tasks."""
    await store.enqueue([a_task(index) for index in range(number)], timeout_s=5)
    batch = await store.claim(
        PLACE, worker_id="w", lease_ms={"default": 60_000}, handlers=["t"], limit=number
    )
    assert len(batch.claims) == number
    return list(batch.claims)


class Parts:
    """What the pieces of one worker share."""

    def __init__(
        self,
        store: RegionStore,
        fleet: Fleet,
        handler: Callable[..., Any] | None = None,
        clock: Clock | None = None,
        timeout: float | None = None,
        *,
        slots: int = 4,
    ) -> None:
        """`handler` runs tasks named t, for at most `timeout` seconds; a child has its own."""
        self.clock = clock or SystemClock()
        app = App()
        if handler is not None:
            app.task("t", timeout=timeout)(handler)
        self.pool = Pool("w", "eu-west", ("default",), slots, fleet, app, "1", 0)
        self.pace = Pace(self.pool, self.clock)
        self.reach = Reach(self.clock)
        self.children = Children(f"{APP}:app", region="eu-west", directory=Path.cwd())
        self.heard: list[str] = []
        self.hears = Hears(
            change=lambda: None,
            due=lambda _partition, _in_ms: None,
            buried=lambda _partition, _in_ms: None,
            worn_out=lambda: self.heard.append("worn out"),
        )
        # Never started: it only knows what is held.
        self.guard = Guard(
            lambda: store, fleet=fleet, clock=self.clock, beat=self.pace.beat, reach=self.reach
        )
