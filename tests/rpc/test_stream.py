import asyncio
from collections.abc import AsyncIterator, Iterable

import grpc
import pytest

from tests.rpc.running import Running, refused, spec
from tradewind.errors import InvalidTask, StoreUnavailable
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


@pytest.mark.parametrize("specs", [[], [TaskSpec()] * 1_001], ids=["none", "too many"])
async def test_a_message_over_the_limits_ends_the_stream(
    serving: Running, specs: Iterable[TaskSpec]
) -> None:
    call = serving.router.SubmitTaskStream()
    await call.write(Request(sequence=1, specs=specs))

    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await call.read()

    assert isinstance(refused(ended.value), InvalidTask)


async def test_an_open_stream_ends_in_peace_when_the_router_stops(serving: Running) -> None:
    call = serving.router.SubmitTaskStream()
    await call.write(Request(sequence=1, specs=[spec()]))
    assert (await call.read()).sequence == 1

    await serving.server.stop(asyncio.Event())

    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK
