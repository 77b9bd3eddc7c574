"""kill -9 of a worker, a router or a courier under load: nothing is lost, nothing is done twice.

The moment is random, counted in what the load has done so far, and each seed repeats its own.
"""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.conftest import APP, WORLD
from tests.harness.ledger import Ledger
from tests.harness.patience import until
from tests.harness.yard import Yard, yard
from tradewind import Client, Receipt
from tradewind.client.views import TaskView
from tradewind.state import State

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

TASKS = 300
AT_ONCE = 24
ATTEMPTS = 2

one_seed_here_more_at_length = pytest.mark.parametrize(
    "seed",
    [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))],
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running_rough(
    tmp_path_factory: pytest.TempPathFactory, ledger: Ledger
) -> AsyncIterator[Yard]:
    home = tmp_path_factory.mktemp("rough")
    # A region that was down takes tasks from elsewhere again after as long, give or take half.
    text = f"{WORLD}health: {{interval: 250ms, timeout: 1s}}\n"
    async with yard(home, text, APP, ledger, "--concurrency", "8") as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def rough(running_rough: Yard, ledger: Ledger) -> AsyncIterator[Yard]:
    """A fleet that is killed in part, whole again before and after each test."""
    await running_rough.is_served_everywhere()
    running_rough.ledger = ledger.from_here()
    yield running_rough
    for region in running_rough.regions:
        for kind in ("router", "worker"):
            await running_rough.supervisor.revive(f"{kind}-{region}")
    await running_rough.is_in_order()


class Load:
    """Submits from every region at once, and knows what was promised."""

    def __init__(self, world: Yard, clients: dict[str, Client], seed: int, *, keyed: bool) -> None:
        """`keyed`: each submit has an idempotency key, whose entry is often in a third region."""
        self.world, self.clients, self.keyed = world, clients, keyed
        self.rng = random.Random(seed)
        self.homes = [self.rng.choice(world.regions) for _ in range(TASKS)]
        self.request_ids = [uuid.uuid4().hex for _ in range(TASKS)]
        self.receipts: dict[int, Receipt] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    async def submit_all(self, name: str, args: dict[str, Any], **options: Any) -> None:
        """TASKS submits, AT_ONCE at the same time; each client repeats what gets no answer."""

        async def one(number: int) -> None:
            self.receipts[number] = await self._submit(
                self.homes[number], number, name, args, options
            )

        await asyncio.gather(*map(one, range(TASKS)))

    async def repeated(self, name: str, args: dict[str, Any], **options: Any) -> list[Receipt]:
        """What another router says to the same submits."""

        async def one(number: int) -> Receipt:
            router = self.rng.choice([r for r in self.world.regions if r != self.homes[number]])
            return await self._submit(router, number, name, args, options)

        return await asyncio.gather(*map(one, range(TASKS)))

    async def _submit(
        self, router: str, number: int, name: str, args: dict[str, Any], options: Any
    ) -> Receipt:
        async with self._room:
            return await self.clients[router].submit(
                name,
                {**args, "number": number},
                origin_region=self.homes[number],
                request_id=self.request_ids[number],
                idempotency_key=f"key-{self.request_ids[number]}" if self.keyed else "",
                **options,
            )

    async def all_settled(self) -> dict[str, TaskView]:
        """What GetTask says at last of everything that was accepted, asked anywhere."""
        ids = [receipt.task_id for receipt in self.receipts.values()]
        assert len(set(ids)) == TASKS
        for task_id in ids:
            await self.world.settled(self.clients[self.rng.choice(self.world.regions)], task_id)
        # Asked once more at the end: a final state never changes.
        views = await asyncio.gather(*(self.clients["eu-west"].get(task_id) for task_id in ids))
        return {view.task_id: view for view in views}


async def load(stays: AsyncExitStack, world: Yard, seed: int, *, keyed: bool = False) -> Load:
    clients = {
        region: await stays.enter_async_context(world.client(region)) for region in world.regions
    }
    return Load(world, clients, seed, keyed=keyed)


def holds_after_a_kill(world: Yard, tasks: dict[str, TaskView]) -> None:
    """Accepted = finished, and nothing was done that was not accepted."""
    ledger = world.ledger
    assert {task.state for task in tasks.values()} == {State.COMPLETED}
    # A second task of one submit would be in the ledger under an id that nobody was told.
    assert {line.task_id for line in ledger.lines()} == set(tasks)
    assert set(ledger.count("done")) == set(tasks)


@one_seed_here_more_at_length
async def test_a_killed_worker_loses_nothing(rough: Yard, seed: int) -> None:
    async with AsyncExitStack() as stays:
        work = await load(stays, rough, seed)
        victim = f"worker-{work.rng.choice(rough.regions)}"
        moment = work.rng.randrange(TASKS // 2)
        killed = rough.supervisor.pid_of(victim)
        assert killed is not None
        submitting = asyncio.create_task(work.submit_all("numbered", {"seconds": 0.02}))
        await until(lambda: len(rough.ledger.lines(event="start")) > moment, "the load runs")
        rough.supervisor.kill(victim)
        await submitting
        tasks = await work.all_settled()
    holds_after_a_kill(rough, tasks)
    again = {task_id for task_id, times in rough.ledger.count("start").items() if times > 1}
    by_the_dead = {line.task_id for line in rough.ledger.lines() if line.pid == killed}
    assert again <= by_the_dead
    assert all(task.crashes <= 1 for task in tasks.values())


@one_seed_here_more_at_length
@pytest.mark.parametrize("keyed", [False, True], ids=["request_id", "idempotency_key"])
async def test_a_killed_router_loses_nothing_and_a_repeat_is_no_second_task(
    rough: Yard, seed: int, keyed: bool
) -> None:
    """With keys (case C20) the kill also comes between the reservation and the task."""
    async with AsyncExitStack() as stays:
        work = await load(stays, rough, seed, keyed=keyed)
        victim = f"router-{work.rng.choice(rough.regions)}"
        moment = work.rng.randrange(TASKS * 3 // 4)
        submitting = asyncio.create_task(work.submit_all("numbered", {"seconds": 0.0}))
        await until(
            lambda: len(work.receipts) > moment or submitting.done(), "submits are answered"
        )
        await asyncio.sleep(work.rng.uniform(0, 0.005))  # anywhere in a submit
        rough.supervisor.kill(victim)
        await submitting
        again = await work.repeated("numbered", {"seconds": 0.0})
        assert [(receipt.task_id, receipt.duplicate) for receipt in again] == [
            (work.receipts[number].task_id, False) for number in range(TASKS)
        ]
        tasks = await work.all_settled()
    holds_after_a_kill(rough, tasks)
    assert set(rough.ledger.count("start").values()) == {1}


@one_seed_here_more_at_length
async def test_a_killed_courier_loses_nothing_of_what_it_was_moving(rough: Yard, seed: int) -> None:
    async with AsyncExitStack() as stays:
        work = await load(stays, rough, seed)
        killed = rough.supervisor.pid_of("worker-eu-west")
        assert killed is not None
        moment = work.rng.randrange(TASKS // 2)
        submitting = asyncio.create_task(
            work.submit_all("numbered.fail.in", {"regions": ["eu-west"]}, labels={"start": "eu"})
        )
        await until(
            lambda: len(rough.ledger.lines(event="done")) > moment,
            "tasks that died in eu-west are finished elsewhere",
        )
        await asyncio.sleep(work.rng.uniform(0, 0.02))  # anywhere in a move
        rough.supervisor.kill("worker-eu-west")
        await submitting
        tasks = await work.all_settled()
    holds_after_a_kill(rough, tasks)
    # All that were done by the kill began there; while nobody works there, others go elsewhere.
    began = {task_id: next(stay.region for stay in task.hops) for task_id, task in tasks.items()}
    assert list(began.values()).count("eu-west") > moment
    # Each died in eu-west once, and was moved once: nowhere was it started more often than allowed.
    for task_id, task in tasks.items():
        assert len(task.hops) == (2 if began[task_id] == "eu-west" else 1)
        starts = rough.ledger.regions(task_id)
        lost = [line for line in rough.ledger.lines(task_id, "start") if line.pid == killed]
        assert starts.count("eu-west") <= ATTEMPTS + bool(lost)
        assert len(starts) - starts.count("eu-west") == 1


@one_seed_here_more_at_length
async def test_a_killed_redis_loses_nothing_that_was_accepted(rough: Yard, seed: int) -> None:
    """With `appendfsync always`: with everysec, Redis may answer before it has written.

    While its thread syncs, a write to the file waits for up to 2 s, the answer does not
    (flushAppendOnlyFile in Redis's aof.c).
    """
    async with AsyncExitStack() as stays:
        work = await load(stays, rough, seed)
        region = work.rng.choice(rough.regions)
        victim = f"redis-{region}"
        with rough.redis(region) as store:
            store.config_set("appendfsync", "always")  # pyright: ignore[reportUnknownMemberType]
        moment = work.rng.randrange(TASKS // 2)
        submitting = asyncio.create_task(work.submit_all("numbered", {"seconds": 0.01}))
        await until(lambda: len(rough.ledger.lines(event="start")) > moment, "the load runs")
        rough.supervisor.kill(victim)
        await submitting
        again = await work.repeated("numbered", {"seconds": 0.01})
        assert [receipt.task_id for receipt in again] == [
            work.receipts[number].task_id for number in range(TASKS)
        ]
        tasks = await work.all_settled()
    holds_after_a_kill(rough, tasks)
