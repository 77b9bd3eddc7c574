"""A caller that leaves: what has not been sent is dropped, what has is stored and found."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.harness.patience import until
from tests.rpc.ledgers import elsewhere
from tests.rpc.running import Running, running, spec
from tradewind.fleet import Fleet
from tradewind.v1 import router_pb2


@pytest.fixture
async def serving(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    """A router that sends one call at a time to a region, so that a submit can be kept waiting."""
    monkeypatch.setattr("router.flush.MAX_CALLS", 1)
    async with running(fleet) as router:
        yield router


def call(serving: Running, **fields: Any) -> Any:
    request = router_pb2.SubmitTaskRequest(spec=spec(**fields))
    return serving.router.SubmitTask(request)


def waiting(serving: Running) -> Any:
    """What is not sent yet to eu-west."""
    gateway: Any = serving.gateway
    return gateway._flushes["eu-west"]._waiting


async def test_a_cancelled_submit_that_was_not_flushed_is_dropped(serving: Running) -> None:
    pause = serving.stores["eu-west"].pause("enqueue", before=True)
    ahead = asyncio.ensure_future(serving.submit(pin_region="eu-west"))
    await pause.reached.wait()
    leaving = call(serving, request_id="r", origin_region="eu-west", pin_region="eu-west")
    sent = asyncio.ensure_future(leaving)
    await until(lambda: len(waiting(serving)) == 1, "the second submit waits")

    leaving.cancel()
    await until(waiting(serving)[0].answer.done, "the router knows that it left")
    pause.over.set()
    await ahead
    await asyncio.gather(sent, return_exceptions=True)
    repeat = await serving.submit(request_id="r", origin_region="eu-west", pin_region="eu-west")

    calls = [ids for name, ids in serving.stores["eu-west"].calls if name == "enqueue"]
    assert calls[-1] == [repeat.task_id]
    assert len(calls) == 2
    assert await serving.stored() == {"eu-west": 2}


async def test_a_cancelled_submit_that_was_flushed_is_found_by_its_repeat(
    serving: Running,
) -> None:
    pause = serving.stores["eu-west"].pause("enqueue", before=True)
    leaving = call(serving, request_id="r", origin_region="eu-west", pin_region="eu-west")
    sent = asyncio.ensure_future(leaving)
    await pause.reached.wait()

    leaving.cancel()
    await asyncio.gather(sent, return_exceptions=True)
    pause.over.set()
    repeat = await serving.submit(request_id="r", origin_region="eu-west", pin_region="eu-west")

    calls = [ids for name, ids in serving.stores["eu-west"].calls if name == "enqueue"]
    assert calls[0] == [repeat.task_id]
    assert await serving.stored() == {"eu-west": 1}


async def test_a_cancelled_submit_that_holds_a_reservation_is_carried_through(
    serving: Running,
) -> None:
    fields = await elsewhere(serving)
    pause = serving.stores["us-east"].pause("reserve")
    leaving = call(serving, **fields)
    sent = asyncio.ensure_future(leaving)
    await pause.reached.wait()

    leaving.cancel()
    await asyncio.gather(sent, return_exceptions=True)
    pause.over.set()

    async def is_stored() -> bool:
        return bool(await serving.stored())

    await until(is_stored, "the task is stored without its caller")
    repeat = await serving.insist(**fields)

    assert repeat.duplicate
    assert await serving.stored() == {"eu-west": 1}
