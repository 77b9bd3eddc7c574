"""The clients of a run: they do what load_plan drew, and write down what they are told."""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from tests.chaos.history import End, Told
from tests.chaos.load_plan import Kind, Operation
from tradewind import Client, TaskOptions
from tradewind.client.views import TaskView
from tradewind.errors import TradewindError, UnknownTask
from tradewind.state import State

DEADLINE_S: Final = 20.0  # of a call: longer than most faults, shorter than some
FENCE: Final = "eu"
_LOOK_S: Final = 0.5


class Load:
    """Every operation of a run, and the answers."""

    def __init__(
        self, operations: Sequence[Operation], clients: Sequence[Client], mark: str
    ) -> None:
        """`mark` makes keys and payloads this run's own; fenced ones carry it with their number."""
        self._operations, self._clients, self._mark = operations, clients, mark
        self._under_way: set[asyncio.Task[None]] = set()
        self.told: list[Told] = []

    def marker(self, number: int) -> str:
        """What stands in a fenced task, and nowhere outside its fence."""
        return f"{self._mark}-{number}-fenced"

    async def play(self) -> None:
        """Do it all at its time, and return once everything is answered."""
        zero = time.monotonic()
        for operation in self._operations:
            await asyncio.sleep(zero + operation.at_s - time.monotonic())
            task = asyncio.create_task(self._one(operation))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        while self._under_way:
            await asyncio.gather(*self._under_way)

    async def _one(self, operation: Operation) -> None:
        first = asyncio.create_task(self._submit(operation, "submit", operation.router))
        if operation.again_s is not None:
            await asyncio.sleep(operation.again_s)
            await self._submit(operation, "again", operation.router + 1)
        told = await first
        if operation.cancel_s is not None and told.task_id:
            await asyncio.sleep(operation.cancel_s)
            await self._cancel(operation, told.task_id)

    async def _submit(self, operation: Operation, call: str, router: int) -> Told:
        args, options = self._asked(operation)
        client = self._client(router)

        async def ask() -> dict[str, Any]:
            receipt = await client.submit("work", args, deadline=DEADLINE_S, **options)
            return {
                "task_id": receipt.task_id,
                "region": receipt.region,
                "is_doubtful": receipt.possible_duplicate,
                "is_unconfirmed": receipt.replication_unconfirmed,
            }

        return await self._tell(operation, call, ask)

    async def _cancel(self, operation: Operation, task_id: str) -> None:
        client = self._client(operation.router + 1)

        async def ask() -> dict[str, Any]:
            answer = await client.cancel(task_id, deadline=DEADLINE_S)
            return {"is_cancelled": answer.cancelled}

        await self._tell(operation, "cancel", ask, task_id=task_id)

    async def _tell(
        self,
        operation: Operation,
        call: str,
        ask: Callable[[], Awaitable[Mapping[str, Any]]],
        **known: str,
    ) -> Told:
        """Ask, and write down what was told; `known` and the answer are fields of Told."""
        asked_at = time.monotonic()
        answer: Mapping[str, Any]
        try:
            answer = await ask()
        except TradewindError as error:
            answer = {"error": error.reason, "is_nothing_kept": error.nothing_kept}
        told = Told(operation.number, call, asked_at, time.monotonic(), **known, **answer)
        self.told.append(told)
        return told

    def _asked(self, operation: Operation) -> tuple[dict[str, str | int | float], TaskOptions]:
        args: dict[str, str | int | float] = {
            "number": operation.number,
            "seconds": round(operation.seconds, 3),
        }
        options: TaskOptions = {"queue": operation.queue, "origin_region": operation.origin}
        match operation.kind:
            case Kind.KEYED:
                options["idempotency_key"] = f"{self._mark}-{operation.number}"
            case Kind.UNIQUE:
                args["said"] = self._mark
            case Kind.DELAYED:
                options["delay"] = operation.delay_s
            case Kind.EXPIRING:
                options["expires"] = operation.delay_s
            case Kind.BROKEN:
                args["broken_in"] = operation.broken_in
            case Kind.FLAKY:
                args["fails"] = operation.fails
            case Kind.FENCED:
                args["said"] = self.marker(operation.number)
                options["residency"] = [FENCE]
            case _:
                pass
        return args, options

    def _client(self, router: int) -> Client:
        return self._clients[router % len(self._clients)]


class Ends:
    """How every accepted task ends, as each router tells it."""

    def __init__(self, clients: Sequence[Client]) -> None:
        """`clients`: one for each router."""
        self._clients = clients
        self.first_seen: dict[str, End] = {}

    async def look(self, load: Load, dice: random.Random) -> None:
        """Watch for ends while the run is under way, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            ids = {told.task_id for told in load.told if told.task_id} - self.first_seen.keys()
            some = dice.sample(sorted(ids), min(len(ids), 8))
            client = dice.choice(self._clients)
            await asyncio.gather(*(self._see(client, task_id) for task_id in some))

    async def settled(self, ids: Sequence[str], patience_s: float) -> None:
        """Wait until every task has come to rest, or is unknown, as the first router tells it."""
        give_up_at = time.monotonic() + patience_s
        left = list(ids)
        while left and time.monotonic() < give_up_at:
            ends = await self._each(self._clients[0], left, give_up_at)
            left = [id_ for id_ in left if (end := ends.get(id_)) is None or not _rests(end)]
            for task_id, end in ends.items():
                if end.is_settled:
                    self.first_seen.setdefault(task_id, end)
            if left:
                await asyncio.sleep(_LOOK_S)

    async def agreed(self, ids: Sequence[str], patience_s: float) -> Mapping[str, tuple[End, ...]]:
        """What each router says of every task; asked again for a while where they differ."""
        found: dict[str, tuple[End, ...]] = {}
        give_up_at = time.monotonic() + patience_s
        asked = list(ids)
        while asked:
            answers = [await self._each(client, asked, give_up_at) for client in self._clients]
            for task_id in asked:
                silent = End("no answer")
                found[task_id] = tuple(each.get(task_id, silent) for each in answers)
            asked = [task_id for task_id in asked if len(set(found[task_id])) > 1]
            if not asked or time.monotonic() > give_up_at:
                return found
            await asyncio.sleep(_LOOK_S)
        return found

    async def _see(self, client: Client, task_id: str) -> None:
        with contextlib.suppress(TradewindError):
            end = _end_of(await client.get(task_id, deadline=2.0))
            if end.is_settled:
                self.first_seen.setdefault(task_id, end)

    async def _each(self, client: Client, ids: Sequence[str], until: float) -> dict[str, End]:
        """What it says of each; of none any more once it is `until` and a call has hung."""
        ends: dict[str, End] = {}
        is_late = False

        async def one(task_id: str) -> None:
            nonlocal is_late
            if is_late:
                return
            try:
                ends[task_id] = _end_of(await client.get(task_id, deadline=10.0))
            except UnknownTask:
                ends[task_id] = End("")
            except TradewindError:
                is_late = time.monotonic() > until

        await _few_at_once([lambda id_=id_: one(id_) for id_ in ids])
        return ends


async def _few_at_once(work: Sequence[Callable[[], Awaitable[None]]], at_once: int = 32) -> None:
    room = asyncio.Semaphore(at_once)

    async def one(each: Callable[[], Awaitable[None]]) -> None:
        async with room:
            await each()

    await asyncio.gather(*map(one, work))


def _rests(end: End) -> bool:
    return not end.state or end.is_settled


def _end_of(view: TaskView) -> End:
    result = json.dumps(view.result) if view.state is State.COMPLETED else ""
    died_of = view.error.kind if view.state is State.DEAD_LETTER and view.error else ""
    return End(str(view.state), view.region, result, is_settled=view.settled, died_of=died_of)
