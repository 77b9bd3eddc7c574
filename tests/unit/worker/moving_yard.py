"""Three regions in memory whose clock only the test moves, and what waits in the first."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.scripts.world import an_id
from tradewind import codec
from tradewind.clock import ManualClock
from tradewind.control import Control, Evacuation, Order, Stamp
from tradewind.fleet import FailoverPlan, Fleet, RedisTarget, Region
from tradewind.task import Draft, Heartbeat, NewTask, Pointer, Priority
from tradewind.testing import MemoryStore
from tradewind.v1.task_pb2 import TaskSpec
from worker.courier import Courier
from worker.views import Views

HERE, THERE, FAR = "eu-west", "us-east", "ap-south"
GROUPS: Final = {HERE: ("eu", "west"), THERE: ("us", "west"), FAR: ("apac",)}
NOWHERE = RedisTarget("standalone", ("127.0.0.1:1",))
FLEET = Fleet(
    regions={name: Region(name, NOWHERE, groups) for name, groups in GROUPS.items()},
    partitions=16,
    failover=FailoverPlan(order={HERE: (THERE, FAR)}),
)
ORDERED_MS = 5


def a_beat(
    region: str, *, queues: tuple[str, ...] = ("mail",), service_s: float = 0.001
) -> Heartbeat:
    return Heartbeat(f"{region}/w", region, queues, ("send",), 16, 0, 0.0, service_s, 0, "1")


@dataclass
class Yard:
    """The regions, and a courier of the first, or of another one for the first."""

    clock: ManualClock = field(default_factory=ManualClock)
    control: Control = field(default_factory=lambda: Control(Stamp(1, "a")))
    stores: dict[str, MemoryStore] = field(default_factory=dict[str, MemoryStore])

    def __post_init__(self) -> None:
        self.stores = {name: MemoryStore(name, FLEET, self.clock) for name in FLEET.regions}

    async def working(self, *regions: str, **beat: Any) -> None:
        for region in regions:
            await self.stores[region].heartbeat(a_beat(region, **beat))

    def courier(self, of: str = HERE) -> Courier:
        targets = {name: store for name, store in self.stores.items() if name != HERE}
        views = Views(of, FLEET, targets, self.clock)
        return Courier(
            self.stores[HERE],
            FLEET,
            targets,
            views,
            clock=self.clock,
            control=lambda: self.control,
            of=of,
        )

    def evacuate(self, rate_per_s: float = 0.0) -> None:
        self.control = replace(
            self.control,
            regions={HERE: Order("DRAINING")},
            evacuations={HERE: Evacuation(rate_per_s, at_ms=ORDERED_MS)},
        )

    async def submit(self, *, delay_ms: int = 0, fence: tuple[str, ...] = (), **spec: Any) -> str:
        spec = {"queue": "mail", "name": "send", **spec}
        draft = Draft(name=spec["name"], spec=TaskSpec(**spec).SerializeToString())
        packed = codec.pack(draft, fence=fence, traceparent="", deduplicated=False)
        task = NewTask(
            an_id(),
            spec["queue"],
            spec["name"],
            Priority.NORMAL,
            packed,
            fence=fence,
            delay_ms=delay_ms,
        )
        await self.stores[HERE].enqueue([task], timeout_s=5)
        return task.task_id

    async def is_in(self, task_id: str) -> str:
        """Where the task is, by its region's own word."""
        found = {name: await store.read(task_id) for name, store in self.stores.items()}
        (region,) = [n for n, r in found.items() if r is not None and not isinstance(r, Pointer)]
        return region

    async def where(self, *task_ids: str) -> Mapping[str, int]:
        places = [await self.is_in(task_id) for task_id in task_ids]
        return {place: places.count(place) for place in places}
