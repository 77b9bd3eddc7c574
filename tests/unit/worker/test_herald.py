"""The herald against a real store and a real receiver: every way in which a try can end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.harness.patience import until
from tests.harness.receiver import HANG, SECRET, TAKEN, Receiver, always
from tests.redis_keys import connected
from tests.unit.worker.world import PLACE, a_task
from tradewind import metrics
from tradewind.clock import SystemClock
from tradewind.fleet import DeadTaskHandler, Fleet, OnDead, QueuePolicy, Webhook
from tradewind.limits import DAY_MS, HOUR_MS
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.store.keys import partition_keys
from tradewind.store.region_store import RegionStore
from tradewind.task import Bury, Failure, Notice, Record
from worker import news
from worker.herald import MAX_TRIES, Herald, hold_ms, wait_ms
from worker.thrift import Thrift
from worker.webhooks import Webhooks

KEYS = partition_keys(16)[PLACE]
TIMEOUT_MS = 1_500


@pytest.fixture
def raw(redis_servers: list[RedisProcess]) -> Any:
    return connected(redis_servers[0].port)


@pytest.fixture
def receive() -> Iterator[Callable[..., Receiver]]:
    opened: list[Receiver] = []

    def opener(*args: Any, **options: Any) -> Receiver:
        opened.append(Receiver(*args, **options))
        return opened[-1]

    yield opener
    for receiver in opened:
        receiver.close()


class Desk:
    """A herald at work in a region whose queue `default` has `on_dead`."""

    def __init__(self, home: RegionStore, fleet: Fleet) -> None:
        self.home, self.fleet = home, fleet
        self.sender = Webhooks(SystemClock())
        self.herald = Herald(home, fleet, self.sender)

    async def dead(self, index: int = 0, *, fence: tuple[str, ...] = ()) -> Record:
        """A task that is dead for good."""
        task = a_task(index)._replace(fence=fence)
        await self.home.enqueue([task], timeout_s=5)
        batch = await self.home.claim(
            PLACE, worker_id="w", lease_ms={"default": 60_000}, handlers=["t"], limit=1
        )
        failure = Failure("error", "boom")
        bury = Bury(batch.claims[0], "exhausted", failure, DAY_MS, may_move=False, failover="no")
        await self.home.bury([bury])
        record = await self.home.read(task.task_id)
        assert isinstance(record, Record)
        return record


@pytest.fixture
async def desk_for(home: RegionStore, one_region: Fleet) -> AsyncIterator[Callable[[OnDead], Desk]]:
    async with contextlib.AsyncExitStack() as stack:

        def open_desk(hook: OnDead) -> Desk:
            fleet = replace(one_region, default_queue=QueuePolicy(on_dead=hook))
            cast("Any", home)._client.fleet = fleet
            desk = Desk(home, fleet)
            stack.push_async_callback(desk.sender.close)
            running = asyncio.create_task(desk.herald.run())
            stack.callback(running.cancel)
            return desk

        yield open_desk


def a_hook(receiver: Receiver, *residency: str) -> Webhook:
    return Webhook(receiver.url, SECRET, residency, TIMEOUT_MS)


def counted(outcome: str) -> float:
    found = metrics.REGISTRY.get_sample_value(
        "tradewind_notices_total",
        {"region": "eu-west", "queue": "default", "outcome": outcome},
    )
    return found or 0.0


async def is_over(raw: Any, desk: Desk) -> None:
    desk.herald.visit(PLACE)
    await until(lambda: not raw.exists(KEYS.hooks), "it is over")


async def tried(raw: Any, desk: Desk, record: Record, tries: int = 1) -> None:
    desk.herald.visit(PLACE)
    key = KEYS.task(record.task_id)
    await until(lambda: raw.hget(key, "ht") == str(tries), f"tried {tries} times")


def said(caplog: pytest.LogCaptureFixture, words: str) -> list[dict[str, Any]]:
    """Lines of the log with `words`, with their facts."""
    found = [record for record in caplog.records if words in record.getMessage()]
    return [{**vars(record), "level": record.levelname} for record in found]


@pytest.mark.parametrize("status", [200, TAKEN, 299])
async def test_any_2xx_is_an_answer(
    desk_for: Callable[[OnDead], Desk], receive: Callable[..., Receiver], raw: Any, status: int
) -> None:
    receiver = receive(answer=always(status))
    desk, before = desk_for(a_hook(receiver)), counted("sent")
    record = await desk.dead()
    await is_over(raw, desk)
    assert receiver.ids() == [f"msg_{record.task_id}_{record.token}"]
    assert counted("sent") == before + 1


@pytest.mark.parametrize("status", [307, 400, 404, 429, 500, 503, HANG])
async def test_any_other_answer_is_tried_again_later_and_no_redirect_followed(
    desk_for: Callable[[OnDead], Desk], receive: Callable[..., Receiver], raw: Any, status: int
) -> None:
    receiver = receive(answer=always(status))
    desk, before = desk_for(a_hook(receiver)), counted("retried")
    record = await desk.dead()
    await tried(raw, desk, record)
    assert len(receiver.messages) == 1
    assert counted("retried") == before + 1
    (due_ms,) = raw.zmscore(KEYS.hooks, [record.task_id])
    swept = await desk.home.sweep(PLACE, worker_id="w", queues=[], courier=False)
    assert due_ms > swept.now_ms


REASONS = {500: "it answered 500", 302: "it answered 302", HANG: f"no answer in {TIMEOUT_MS} ms"}


@pytest.mark.parametrize(("status", "reason"), REASONS.items(), ids=str)
async def test_a_failed_try_has_a_line_that_says_why_and_when_the_next_one_is(
    desk_for: Callable[[OnDead], Desk],
    receive: Callable[..., Receiver],
    raw: Any,
    caplog: pytest.LogCaptureFixture,
    status: int,
    reason: str,
) -> None:
    receiver = receive(answer=always(status))
    desk = desk_for(a_hook(receiver))
    record = await desk.dead()
    for tries in (1, 2):
        await tried(raw, desk, record, tries)
        raw.zadd(KEYS.hooks, {record.task_id: 1})
        (line,) = said(caplog, "tried again")
        caplog.clear()
        assert (line["level"], line["task_id"], line["queue"]) == (
            *("WARNING", record.task_id, "default"),
        )
        assert (line["reason"], line["tries"]) == (reason, tries)
        assert 2 <= line["next_try_in_s"] <= 10
        assert not {SECRET, receiver.url} & {str(value) for value in line.values()}


async def test_of_many_failures_at_once_some_have_a_line_and_the_next_says_how_many_had_none(
    desk_for: Callable[[OnDead], Desk],
    receive: Callable[..., Receiver],
    raw: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = desk_for(a_hook(receive(answer=always(500))))
    passed_s = 0.0
    cast("Any", desk.herald)._thrift = Thrift(lambda: passed_s)
    records = [await desk.dead(index) for index in range(40)]
    desk.herald.visit(PLACE)
    await until(
        lambda: all(raw.hexists(KEYS.task(r.task_id), "ht") for r in records), "all have failed"
    )
    assert len(said(caplog, "tried again")) == 10
    passed_s += 10
    raw.zadd(KEYS.hooks, {records[0].task_id: 1})
    await tried(raw, desk, records[0], 2)
    assert said(caplog, "tried again")[-1]["others_not_logged"] == 30


async def test_a_signature_by_another_secret_is_refused_and_tried_again(
    desk_for: Callable[[OnDead], Desk], receive: Callable[..., Receiver], raw: Any
) -> None:
    receiver = receive()
    desk = desk_for(replace(a_hook(receiver), secret=SECRET[:-8] + "AAAAAAA="))
    await tried(raw, desk, await desk.dead())
    assert (receiver.refused, receiver.messages) == (1, [])


async def test_who_is_gone_hears_no_more_of_this_task(
    desk_for: Callable[[OnDead], Desk],
    receive: Callable[..., Receiver],
    raw: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    receiver = receive(answer=always(410))
    desk, before = desk_for(a_hook(receiver)), counted("gone")
    await desk.dead()
    await is_over(raw, desk)
    assert (len(receiver.messages), counted("gone")) == (1, before + 1)
    (line,) = said(caplog, "wants no word")
    assert (line["level"], line["reason"]) == ("WARNING", "it answered 410")


async def test_the_last_try_is_the_last(
    desk_for: Callable[[OnDead], Desk],
    receive: Callable[..., Receiver],
    raw: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    receiver = receive(answer=always(500))
    desk, before = desk_for(a_hook(receiver)), counted("given_up")
    record = await desk.dead()
    raw.hset(KEYS.task(record.task_id), "ht", MAX_TRIES - 2)
    await tried(raw, desk, record, MAX_TRIES - 1)
    raw.zadd(KEYS.hooks, {record.task_id: 1})
    await is_over(raw, desk)
    assert (len(receiver.messages), counted("given_up")) == (2, before + 1)
    (line,) = said(caplog, "given up")
    assert (line["level"], line["tries"]) == ("ERROR", MAX_TRIES)
    assert "next_try_in_s" not in line


async def test_a_receiver_outside_the_fence_hears_nothing(
    desk_for: Callable[[OnDead], Desk], receive: Callable[..., Receiver], raw: Any
) -> None:
    receiver = receive()
    desk, before = desk_for(a_hook(receiver, "us")), counted("withheld")
    await desk.dead(fence=("eu",))
    await is_over(raw, desk)
    assert (receiver.messages, counted("withheld")) == ([], before + 1)


async def test_what_nobody_wants_to_hear_any_more_is_dropped(
    desk_for: Callable[[OnDead], Desk], receive: Callable[..., Receiver], raw: Any
) -> None:
    desk = desk_for(DeadTaskHandler("tell"))
    await desk.dead()
    before = counted("dropped")
    cast("Any", desk.herald)._fleet = replace(desk.fleet, default_queue=QueuePolicy())
    await is_over(raw, desk)
    assert counted("dropped") == before + 1


async def test_a_hung_receiver_keeps_no_other_waiting(
    desk_for: Callable[[OnDead], Desk], receive: Callable[..., Receiver], raw: Any
) -> None:
    hung, well = receive(answer=always(HANG)), receive()
    desk = desk_for(replace(a_hook(hung), timeout_ms=60_000))
    for index in range(30):
        await desk.dead(index)
    desk.herald.visit(PLACE)
    await until(lambda: len(hung.messages) == 8, "it hangs")
    reply = await desk.sender.send(a_hook(well), "msg_1", b'{"type": "t", "data": {}}')
    assert (reply.outcome, well.ids()) == ("sent", ["msg_1"])
    assert len(hung.messages) == 8
    assert raw.zcard(KEYS.hooks) == 30


async def test_a_task_that_was_stored_before_its_herald_died_is_not_stored_twice(
    desk_for: Callable[[OnDead], Desk], raw: Any
) -> None:
    hook = DeadTaskHandler("tell")
    desk = desk_for(hook)
    record = await desk.dead()
    notice = Notice(record, "default", "t", 0, 0)
    await desk.home.enqueue([news.task(notice, hook, desk.fleet)], timeout_s=5)
    await is_over(raw, desk)
    counts = await desk.home.counts()
    assert sum(counts["default"].pending) == 1


async def test_a_redriven_task_that_dies_again_is_told_of_by_another_task(
    desk_for: Callable[[OnDead], Desk], raw: Any
) -> None:
    desk = desk_for(DeadTaskHandler("tell"))
    record = await desk.dead()
    await is_over(raw, desk)
    assert await desk.home.redrive(record.task_id, record.epoch)
    again = await desk.dead()
    assert again.state is State.DEAD_LETTER
    await is_over(raw, desk)
    counts = await desk.home.counts()
    assert sum(counts["default"].pending) == 2


def test_the_tries_are_over_within_a_day_and_not_before_half_of_it() -> None:
    waits = range(1, MAX_TRIES)
    assert sum(wait_ms(tries, 0.999_999) for tries in waits) <= DAY_MS
    assert sum(wait_ms(tries, 0.999_999) for tries in waits) > DAY_MS - HOUR_MS
    assert sum(wait_ms(tries, 0.0) for tries in waits) > DAY_MS / 2 - HOUR_MS


def test_nothing_is_told_twice_because_a_try_took_long(one_region: Fleet) -> None:
    longest = Webhook("https://h/", SECRET, (), 60_000)
    fleet = replace(one_region, queues={"a": QueuePolicy(on_dead=longest)})
    assert hold_ms(fleet) > 2 * longest.timeout_ms
