"""Submits through two routers while links are cut, and what the ledger says of them afterwards."""

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.harness.ledger import Ledger, Line
from tests.harness.patience import until
from tests.harness.yard import Yard
from tradewind import Client, Receipt, TaskOptions
from tradewind.client.views import TaskView
from tradewind.errors import TradewindError
from tradewind.state import State

BROKEN = "eu-west"  # where one task in five cannot be finished, and is moved by couriers
FENCE = ["eu", "us"]  # groups of two of the three regions
BURST, EVERY_S = 40, 0.08
DEADLINE_S = 100.0  # the SDK asks again for so long: longer than any cut


class Load:
    """Submits, each with its own way to be told from the others, and what was promised for them."""

    def __init__(self, world: Yard, clients: Mapping[str, Client], rng: random.Random) -> None:
        """`clients`: one for each router that takes submits."""
        self.world, self.rng = world, rng
        self._clients = dict(clients)
        self._mark = uuid.uuid4().hex
        self._seconds: list[float] = []
        self._under_way: list[asyncio.Task[None]] = []
        self._over = asyncio.Event()
        # What no region outside their fence may see of fenced tasks.
        self.marks = {part: f"{part}-{uuid.uuid4().hex}" for part in ("said", "label", "key")}
        self.receipts: dict[int, Receipt] = {}
        self.failed: dict[int, TradewindError] = {}

    def burst(self) -> None:
        """Work for eu-west that takes its workers some seconds: part of it waits."""
        for number in range(BURST):
            self._begin(6.0 if number % 10 == 0 else 0.5)

    async def trickle(self) -> None:
        """Submits one after the other, until `stop`."""
        while not self._over.is_set():
            self._begin(0.2)
            await asyncio.sleep(EVERY_S)

    def stop(self) -> None:
        """No more of them."""
        self._over.set()

    async def answered(self) -> None:
        """Wait for the answers to all submits."""
        await asyncio.gather(*self._under_way)

    def is_broken(self, number: int) -> bool:
        """Whether the task cannot be finished in BROKEN."""
        return number % 5 == 4

    def is_fenced(self, number: int) -> bool:
        """Whether the task may only be in FENCE."""
        return number % 4 == 1

    def _begin(self, seconds: float) -> None:
        number = len(self._under_way)
        router = list(self._clients)[number % len(self._clients)]
        self._seconds.append(seconds)
        self._under_way.append(asyncio.create_task(self._answer(number, router)))

    async def _answer(self, number: int, router: str) -> None:
        try:
            self.receipts[number] = await self._submit(number, router)
        except TradewindError as error:
            self.failed[number] = error

    async def _submit(self, number: int, router: str) -> Receipt:
        options: TaskOptions = {"origin_region": self.world.regions[number % 3]}
        args: dict[str, int | float | str] = {"number": number, "seconds": self._seconds[number]}
        if number < BURST or self.is_broken(number):
            options["labels"] = {"start": "eu"}
        if self.is_broken(number):
            args["broken_in"] = BROKEN
        mark = self._mark
        if self.is_fenced(number):
            mark, args["said"] = self.marks["key"], self.marks["said"]
            options["residency"] = FENCE
            options["labels"] = {**options.get("labels", {}), "note": self.marks["label"]}
        if number % 3 == 1:
            options["request_id"] = f"{mark}-{number}"
        elif number % 3 == 2:
            options["idempotency_key"] = f"{mark}-{number}"
        return await self._clients[router].submit("work", args, deadline=DEADLINE_S, **options)

    async def repeated(self) -> dict[int, Receipt]:
        """What the other router says to the same submits, where a repeat can be known as one."""
        routers = list(self._clients)

        async def one(number: int) -> tuple[int, Receipt]:
            other = routers[(number + 1) % len(routers)]
            return number, await self._submit(number, other)

        named = [number for number in self.receipts if number % 3]
        return dict(await asyncio.gather(*map(one, named)))

    async def settled(self) -> dict[str, TaskView]:
        """Every task as it was when it was first seen settled, asked anywhere."""
        clients = list(self._clients.values())

        async def one(receipt: Receipt) -> tuple[str, TaskView]:
            view = await self.world.settled(self.rng.choice(clients), receipt.task_id)
            return receipt.task_id, view

        return dict(await asyncio.gather(*map(one, self.receipts.values())))


async def agreed(clients: Sequence[Client], ids: Sequence[str]) -> dict[str, TaskView]:
    """Wait until all routers say the same of every task, and give that."""
    views: list[dict[str, TaskView]] = []

    async def all_agree() -> bool:
        asked = [asyncio.gather(*(client.get(id_) for id_ in ids)) for client in clients]
        views[:] = [{view.task_id: view for view in each} for each in await asyncio.gather(*asked)]
        return all(each == views[0] for each in views)

    await until(all_agree, "all routers agree on every task")
    return views[0]


@dataclass(slots=True)
class Runs:
    """What the ledger says of the tasks of one load: how often each ran more than it had to."""

    extra: Counter[str] = field(default_factory=Counter[str])
    first: dict[str, Line] = field(default_factory=dict[str, Line])
    ended: dict[str, set[tuple[str, int, int]]] = field(
        default_factory=dict[str, set[tuple[str, int, int]]]
    )

    @staticmethod
    def of(ledger: Ledger, broken: set[str]) -> "Runs":
        """Read the ledger. One that is `broken` in a region has to run there, and elsewhere."""
        runs = Runs()
        starts: dict[str, Counter[bool]] = {}
        for line in ledger.lines():
            if line.event == "start":
                runs.first.setdefault(line.task_id, line)
                fails = line.task_id in broken and line.region == BROKEN
                starts.setdefault(line.task_id, Counter())[fails] += 1
            else:
                run = (line.region, line.attempt, line.pid)
                runs.ended.setdefault(line.task_id, set()).add(run)
        for task_id, count in starts.items():
            runs.extra[task_id] = max(0, count[True] - 1) + max(0, count[False] - 1)
        runs.extra = +runs.extra
        return runs


def is_one_of_its_runs(view: TaskView, runs: Runs) -> bool:
    """Whether the task has completed with the result of a run that came to its end."""
    return view.state is State.COMPLETED and tuple(view.result[:3]) in runs.ended[view.task_id]
