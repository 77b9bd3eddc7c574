"""A task that may not start any more: from the submit to the end."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.rpc import labour
from tests.rpc.running import Running
from tradewind.clock import SystemClock
from tradewind.errors import InvalidTask
from tradewind.ids import parse
from tradewind.limits import SECOND_MS
from tradewind.task import Record
from tradewind.v1 import router_pb2, task_pb2

EXPIRED = task_pb2.TASK_STATE_EXPIRED


def soon(seconds: float) -> datetime:
    now_s = SystemClock().now_ms() / SECOND_MS
    return datetime.fromtimestamp(now_s + seconds, UTC)


async def sweep(serving: Running, task_id: str, region: str = "eu-west") -> None:
    """Upkeep, as workers do it every few seconds."""
    await serving.stores[region].real.sweep(
        parse(task_id).partition, worker_id="w", queues=["default"], courier=False
    )


WAITING: dict[str, dict[str, Any]] = {
    "waits": {},
    "waits with a key": {"idempotency_key": "k"},
    "waits with a request id at another home": {"request_id": "r", "origin_region": "us-east"},
    "is delayed": {"delay": timedelta(milliseconds=100)},
}


@pytest.mark.parametrize("fields", WAITING.values(), ids=WAITING)
async def test_a_task_ends_expired_that(serving: Running, fields: dict[str, Any]) -> None:
    receipt = await serving.submit(pin_region="eu-west", expires_at=soon(0.3), **fields)
    watching = serving.router.WatchTask(router_pb2.WatchTaskRequest(task_id=receipt.task_id))
    states: list[int] = []

    async def follow() -> None:
        async for seen in watching:
            states.append(seen.task.state)  # noqa: PERF401 - one after another

    following = asyncio.create_task(follow())
    while not following.done():
        await sweep(serving, receipt.task_id)
        await asyncio.wait({following}, timeout=0.05)

    task = await serving.get(receipt.task_id)
    assert (states[-1], task.state, task.settled) == (EXPIRED, EXPIRED, True)
    assert task.attempts == 0
    assert task.HasField("finished_at")


async def test_a_task_that_runs_at_its_expiry_goes_on(serving: Running) -> None:
    receipt = await serving.submit(pin_region="eu-west", expires_at=soon(0.3))
    store = serving.stores["eu-west"]
    held = await labour.claim(store, receipt.task_id)

    await asyncio.sleep(0.4)
    await sweep(serving, receipt.task_id)
    await labour.finish(store, held)

    assert (await serving.get(receipt.task_id)).state == task_pb2.TASK_STATE_COMPLETED


async def test_the_expiry_is_stored_to_the_millisecond(serving: Running) -> None:
    until = soon(60).replace(microsecond=123_999)
    receipt = await serving.submit(pin_region="eu-west", expires_at=until)

    record = await serving.stores["eu-west"].real.read(receipt.task_id)

    assert isinstance(record, Record)
    assert record.expires_ms % 1_000 == 123
    shown = (await serving.get(receipt.task_id)).spec.expires_at.ToDatetime(tzinfo=UTC)
    assert shown == until


async def test_an_expiry_in_the_past_is_refused_and_nothing_is_stored(serving: Running) -> None:
    with pytest.raises(InvalidTask, match="expires_at: must be in the future"):
        await serving.submit(expires_at=soon(-1))

    assert await serving.stored() == {}


async def test_a_route_can_be_explained_for_a_task_that_expires(serving: Running) -> None:
    assert (await serving.explain(expires_at=soon(60))).region
