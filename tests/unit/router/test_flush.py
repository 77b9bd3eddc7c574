import asyncio
from collections.abc import Mapping, Sequence

import pytest

from router.flush import ENOUGH, MAX_CALLS, Flush
from tradewind.errors import StoreError, StoreFull, StoreUnavailable
from tradewind.limits import MAX_FLUSH, MIB
from tradewind.state import State
from tradewind.task import EnqueueOutcome, NewTask, Priority, Stored


class Gate:
    """An intake that answers when it is told to."""

    region = "eu"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.begun = asyncio.Queue[None]()
        self.open = asyncio.Event()
        self.failure: Exception | None = None
        self.refused: set[str] = set()

    async def enqueue(
        self, tasks: Sequence[NewTask], *, timeout_s: float
    ) -> tuple[list[EnqueueOutcome | StoreError], Mapping[int, int]]:
        self.calls.append([task.task_id for task in tasks])
        self.begun.put_nowait(None)
        await self.open.wait()
        if self.failure is not None:
            raise self.failure
        return [self._outcome(task.task_id) for task in tasks], {0: len(tasks)}

    def _outcome(self, task_id: str) -> EnqueueOutcome | StoreError:
        if task_id in self.refused:
            return StoreFull("eu")
        return Stored(task_id, State.PENDING, created=True)

    async def refuse(self, task_id: str, epoch: int) -> Stored | None:
        raise NotImplementedError


class Ear:
    def __init__(self) -> None:
        self.under_way = 0
        self.heard: list[tuple[int, Mapping[int, int], StoreError | None]] = []

    def sent(self, region: str, names: Mapping[str, int]) -> None:
        self.under_way += sum(names.values())

    def dropped(self, region: str, names: Mapping[str, int]) -> None:
        self.under_way -= sum(names.values())

    def answered(
        self,
        region: str,
        names: Mapping[str, int],
        depths: Mapping[int, int],
        error: StoreError | None,
        took_ms: float | None = None,
    ) -> None:
        self.under_way -= sum(names.values())
        self.heard.append((sum(names.values()), depths, error))


def task(name: str, size: int = 1) -> NewTask:
    return NewTask(name, "default", "n", Priority.NORMAL, b"x" * size)


async def submit(flush: Flush, one: NewTask) -> EnqueueOutcome | StoreError:
    (outcome,) = await flush.send([one], timeout_s=5)
    return outcome


def submits(flush: Flush, *names: str) -> list[asyncio.Task[EnqueueOutcome | StoreError]]:
    return [asyncio.create_task(submit(flush, task(name))) for name in names]


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def called(gate: Gate, times: int) -> None:
    for _ in range(times):
        await gate.begun.get()


async def test_a_single_submit_leaves_at_once() -> None:
    gate, ear = Gate(), Ear()
    (one,) = submits(Flush(gate, ear), "a")

    await turns(1)
    assert ear.under_way == 1
    await turns()

    assert gate.calls == [["a"]]
    assert ear.under_way == 1
    gate.open.set()
    assert await one == Stored("a", State.PENDING, created=True)
    assert ear.heard == [(1, {0: 1}, None)]
    assert ear.under_way == 0


async def test_what_is_ready_together_travels_together() -> None:
    gate = Gate()
    gate.open.set()
    names = [str(n) for n in range(20)]

    await asyncio.gather(*submits(Flush(gate, Ear()), *names))

    assert gate.calls == [names]


async def test_while_a_call_is_under_way_others_gather() -> None:
    gate = Gate()
    flush = Flush(gate, Ear())
    first = submits(flush, "a")
    await turns()
    later = submits(flush, "b", "c")
    await called(gate, 2)
    gate.open.set()

    await asyncio.gather(*first, *later)

    assert gate.calls == [["a"], ["b", "c"]]


@pytest.mark.parametrize(("longest_ms", "calls"), [(3_600_000, ["bcd"]), (0, ["bc", "d"])])
async def test_as_long_as_others_come_more_are_waited_for_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, longest_ms: int, calls: list[str]
) -> None:
    monkeypatch.setattr("router.flush.FLUSH_WAIT_MS", 0)
    monkeypatch.setattr("router.flush.FLUSH_LONGEST_MS", longest_ms)
    gate = Gate()
    flush = Flush(gate, Ear())
    sent = submits(flush, "a")
    await called(gate, 1)

    for name in "bcd":
        sent += submits(flush, name)
        await turns(1)
    await called(gate, len(calls))
    gate.open.set()
    await asyncio.gather(*sent)

    assert ["".join(names) for names in gate.calls] == ["a", *calls]


async def test_so_many_that_they_need_no_company_wait_for_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("router.flush.FLUSH_WAIT_MS", 3_600_000)
    gate = Gate()
    flush = Flush(gate, Ear())
    sent = submits(flush, "a")
    await called(gate, 1)
    sent += submits(flush, *map(str, range(ENOUGH - 1)))
    await turns()
    assert gate.calls == [["a"]]

    sent += submits(flush, "b", "c")
    await called(gate, 1)

    assert gate.calls[1:] == [[*map(str, range(ENOUGH - 1)), "b", "c"]]
    gate.open.set()
    await asyncio.gather(*sent)


async def test_what_comes_soon_after_a_call_gathers_though_the_call_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("router.flush.FLUSH_WAIT_MS", 3_600_000)
    gate = Gate()
    gate.open.set()
    flush = Flush(gate, Ear())
    await asyncio.gather(*submits(flush, "a"))
    later = submits(flush, "b", "c")
    await turns()

    assert gate.calls == [["a"]]
    await flush.drain()
    await asyncio.gather(*later)
    assert gate.calls == [["a"], ["b", "c"]]


async def test_when_that_time_is_over_a_submit_leaves_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("router.flush.FLUSH_WAIT_MS", 0)
    gate = Gate()
    gate.open.set()
    flush = Flush(gate, Ear())
    await asyncio.gather(*submits(flush, "a"))
    submits(flush, "b")

    await turns()

    assert gate.calls == [["a"], ["b"]]


async def test_what_came_in_one_message_travels_in_one_call() -> None:
    gate = Gate()
    gate.open.set()
    flush = Flush(gate, Ear())
    gate.refused = {"2"}

    one = flush.send([task(str(n)) for n in range(4)], timeout_s=5)
    two = flush.send([task(str(n)) for n in range(4, MAX_FLUSH + 1)], timeout_s=5)
    outcomes = [*await one, *await two]

    assert [len(call) for call in gate.calls] == [4, MAX_FLUSH - 3]
    assert isinstance(outcomes[2], StoreFull)
    stored = [outcome for outcome in outcomes if isinstance(outcome, Stored)]
    assert [one.task_id for one in stored] == [str(n) for n in range(MAX_FLUSH + 1) if n != 2]


async def test_a_call_carries_so_many_tasks_and_so_many_calls_are_under_way() -> None:
    gate = Gate()
    names = [str(n) for n in range(MAX_FLUSH * (MAX_CALLS + 1))]
    flush = Flush(gate, Ear())
    all_of_them = submits(flush, *names)
    await turns()

    assert [len(call) for call in gate.calls] == [MAX_FLUSH] * MAX_CALLS
    gate.open.set()
    await asyncio.gather(*all_of_them)
    assert sorted(name for call in gate.calls for name in call) == sorted(names)


async def test_large_payloads_do_not_pile_up_in_one_call() -> None:
    gate = Gate()
    gate.open.set()
    flush = Flush(gate, Ear())

    await asyncio.gather(*(submit(flush, task(str(n), MIB)) for n in range(9)))

    assert [len(call) for call in gate.calls] == [4, 4, 1]


async def test_a_submit_whose_caller_left_before_the_call_is_dropped() -> None:
    gate, ear = Gate(), Ear()
    flush = Flush(gate, ear)
    first = submits(flush, "a")
    await turns()
    gone, stays = submits(flush, "b", "c")
    await turns(1)
    gone.cancel()
    await called(gate, 2)
    gate.open.set()

    await asyncio.gather(*first, stays)

    assert gate.calls == [["a"], ["c"]]
    assert ear.under_way == 0


async def test_a_call_that_has_begun_runs_to_its_end_though_its_callers_left() -> None:
    gate, ear = Gate(), Ear()
    flush = Flush(gate, ear)
    (one,) = submits(flush, "a")
    await turns()
    one.cancel()
    await asyncio.gather(one, return_exceptions=True)
    gate.open.set()

    await flush.drain()

    assert ear.heard == [(1, {0: 1}, None)]


async def test_who_hears_nothing_by_its_deadline_is_told_so_and_others_wait_on() -> None:
    gate, ear = Gate(), Ear()
    flush = Flush(gate, ear)
    patient = flush.send([task("a")], timeout_s=5)
    hasty = flush.send([task("b"), task("c")], timeout_s=0.01)

    late, also_late = await hasty

    assert late is also_late
    assert isinstance(late, StoreUnavailable)
    assert late.sent, "the call that carries it has begun"
    assert not patient.done()
    gate.open.set()
    assert await patient == [Stored("a", State.PENDING, created=True)]
    assert ear.under_way == 0


async def test_an_item_that_failed_fails_its_own_submit_only() -> None:
    gate, ear = Gate(), Ear()
    gate.open.set()
    gate.refused = {"b"}

    good, bad = await asyncio.gather(*submits(Flush(gate, ear), "a", "b"), return_exceptions=True)

    assert isinstance(good, Stored)
    assert isinstance(bad, StoreFull)
    assert isinstance(ear.heard[0][2], StoreFull)


async def test_a_call_that_failed_fails_all_of_its_submits() -> None:
    gate, ear = Gate(), Ear()
    gate.open.set()
    gate.failure = StoreUnavailable("eu", "refused", sent=False)

    outcomes = await asyncio.gather(*submits(Flush(gate, ear), "a", "b"), return_exceptions=True)

    assert outcomes == [gate.failure, gate.failure]
    assert ear.heard == [(2, {}, gate.failure)]


async def test_a_bug_reaches_its_callers_and_the_flush_goes_on() -> None:
    gate, ear = Gate(), Ear()
    flush = Flush(gate, ear)
    gate.open.set()
    gate.failure = ZeroDivisionError()

    with pytest.raises(ZeroDivisionError):
        await submit(flush, task("a"))
    gate.failure = None

    assert await submit(flush, task("b"))
    assert ear.under_way == 0


async def test_a_flush_is_drained_once_nothing_waits_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("router.flush.FLUSH_WAIT_MS", 3_600_000)
    gate = Gate()
    gate.open.set()
    flush = Flush(gate, Ear())
    names = [str(n) for n in range(MAX_FLUSH * MAX_CALLS + 3)]
    all_of_them = submits(flush, *names)
    await turns(1)

    await flush.drain()

    assert sum(map(len, gate.calls)) == len(names)
    await asyncio.gather(*all_of_them)
