import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from tests.rpc.running import Running, refused, spec
from tradewind import statuses
from tradewind.errors import BatchTooLarge, InvalidTask, StoreUnavailable, TradewindError
from tradewind.v1 import router_pb2
from tradewind.v1.task_pb2 import TaskSpec

Request = router_pb2.SubmitTaskStreamRequest


async def test_messages_are_answered_by_their_sequence(serving: Running) -> None:
    async def messages() -> AsyncIterator[Request]:
        for sequence in range(40):
            yield Request(sequence=sequence, specs=[spec(pin_region="eu-west"), spec(name="")])

    answers = [answer async for answer in serving.router.SubmitTaskStream(messages())]

    assert sorted(answer.sequence for answer in answers) == list(range(40))
    for answer in answers:
        stored, failed = answer.results
        assert stored.accepted.region == "eu-west"
        assert failed.error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert await serving.stored() == {"eu-west": 40}


async def test_a_slow_message_does_not_hold_up_those_behind_it(serving: Running) -> None:
    lost = StoreUnavailable("us-east", "connection lost", sent=True)
    serving.stores["us-east"].fail("enqueue", *[lost] * 3)
    call = serving.router.SubmitTaskStream()
    await call.write(Request(sequence=1, specs=[spec(pin_region="us-east")]))
    await call.write(Request(sequence=2, specs=[spec(pin_region="eu-west")]))

    assert (await call.read()).sequence == 2
    assert (await call.read()).sequence == 1
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


BIG = {"payload": b"x" * 900_000, "content_type": "a/b"}


@pytest.mark.parametrize(
    ("specs", "errors"),
    [
        ([], []),
        ([spec()] * 1_001, [InvalidTask] * 1_001),
        ([spec(**BIG)] * 5, [BatchTooLarge] * 5),
    ],
    ids=["no task at all", "too many tasks", "too many bytes"],
)
async def test_a_message_over_the_limits_is_answered_for_itself(
    serving: Running, specs: list[TaskSpec], errors: list[type[TradewindError]]
) -> None:
    call = serving.router.SubmitTaskStream()
    await call.write(Request(sequence=1, specs=specs))
    bad = await call.read()
    await call.write(Request(sequence=2, specs=[spec()]))
    good = await call.read()
    await call.done_writing()

    assert bad.sequence == 1
    assert [type(statuses.from_status(result.error)) for result in bad.results] == errors
    assert good.sequence == 2
    assert good.results[0].accepted.region == "eu-west"
    assert await call.code() is grpc.StatusCode.OK
    assert await serving.stored() == {"eu-west": 1}


@pytest.mark.parametrize(
    "last",
    [b"\xff\xff\xff", Request(sequence=2, specs=[TaskSpec()] * 100_000).SerializeToString()],
    ids=["unreadable", "more tasks than an answer can hold errors"],
)
async def test_a_message_that_cannot_be_answered_ends_the_stream_after_those_before_it(
    serving: Running, last: bytes
) -> None:
    lost = StoreUnavailable("eu-west", "connection lost", sent=True)
    serving.stores["eu-west"].fail("enqueue", *[lost] * 3)
    channel: Any = serving.channel
    stream = channel.stream_stream(
        "/tradewind.v1.RouterService/SubmitTaskStream",
        response_deserializer=router_pb2.SubmitTaskStreamResponse.FromString,
    )
    call = stream()
    await call.write(Request(sequence=1, specs=[spec(pin_region="eu-west")]).SerializeToString())
    await call.write(last)

    answer = await call.read()
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await call.read()

    assert answer.sequence == 1
    assert answer.results[0].accepted.region == "eu-west"
    assert isinstance(refused(ended.value), InvalidTask)


async def test_an_open_stream_ends_in_peace_when_the_router_stops(serving: Running) -> None:
    call = serving.router.SubmitTaskStream()
    await call.write(Request(sequence=1, specs=[spec()]))
    assert (await call.read()).sequence == 1

    await serving.server.stop(asyncio.Event())

    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK
