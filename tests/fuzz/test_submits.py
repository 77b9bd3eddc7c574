"""Whatever is sent to a router: a documented answer, nothing stored of what was refused, and no
memory that it does not give back.
"""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.message import Message

from tests.fuzz import messages
from tests.fuzz.target import Target, under_fire
from tradewind.local.scratch import RedisProcess
from tradewind.v1 import router_pb2

MAX_GROWTH_MIB = 50.0  # of a router, however much it is sent
SEED = 20260730
here_or_at_length = pytest.mark.parametrize(
    "number", [2_000, pytest.param(100_000, marks=pytest.mark.long)]
)


def made(kind: type[Message], number: int, seed: int = SEED) -> Iterator[bytes]:
    """Requests of a type, made as they are sent."""
    rng = random.Random(seed)
    return (messages.message(kind, rng) for _ in range(number))


def judge(target: Target, before_mib: float) -> None:
    """Raises AssertionError with what was sent."""
    print(dict(target.codes), f"{before_mib:.0f} MiB before, {target.rss_mib():.0f} MiB after")
    assert target.undocumented == []
    tasks, entries = target.stored()
    assert tasks == target.accepted
    assert entries <= tasks
    assert target.rss_mib() - before_mib < MAX_GROWTH_MIB


@pytest.mark.timeout(1800)
@here_or_at_length
async def test_a_submit_gets_a_documented_answer_and_is_stored_only_if_accepted(
    redis_servers: list[RedisProcess], tmp_path: Path, number: int
) -> None:
    kind, answer = router_pb2.SubmitTaskRequest, router_pb2.SubmitTaskResponse
    async with under_fire(redis_servers, tmp_path) as target:
        await target.fire("SubmitTask", answer, made(kind, min(number, 2_000), seed=1))
        before_mib = target.rss_mib()
        await target.fire("SubmitTask", answer, made(kind, number))
        judge(target, before_mib)
        assert len(target.accepted) > number / 10  # or the fuzz would say nothing of storing


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", [100, pytest.param(2_000, marks=pytest.mark.long)])
async def test_so_does_each_submit_of_a_batch_and_of_a_stream(
    redis_servers: list[RedisProcess], tmp_path: Path, number: int
) -> None:
    async with under_fire(redis_servers, tmp_path) as target:
        before_mib = target.rss_mib()
        await target.fire(
            "SubmitTasks",
            router_pb2.SubmitTasksResponse,
            made(router_pb2.SubmitTasksRequest, number),
        )
        requests = made(router_pb2.SubmitTaskStreamRequest, number)
        while few := list(itertools.islice(requests, 10)):
            await target.stream(few)
        judge(target, before_mib)


@pytest.mark.timeout(1800)
@here_or_at_length
async def test_an_id_gets_a_documented_answer(
    redis_servers: list[RedisProcess], tmp_path: Path, number: int
) -> None:
    rng = random.Random(SEED)
    number //= 10
    async with under_fire(redis_servers, tmp_path) as target:
        await target.fire(
            "SubmitTask",
            router_pb2.SubmitTaskResponse,
            made(router_pb2.SubmitTaskRequest, 200),
        )
        known = sorted(target.accepted)
        before_mib = target.rss_mib()

        def ids(kind: type[Message]) -> Iterator[bytes]:
            for _ in range(number):
                data = kind(task_id=messages.task_id(rng, known)).SerializeToString()
                yield messages.damaged(data, rng) if rng.random() < 0.3 else data

        await target.fire("GetTask", router_pb2.GetTaskResponse, ids(router_pb2.GetTaskRequest))
        for data in ids(router_pb2.WatchTaskRequest):
            await target.watch(data)
        await target.fire(
            "CancelTask", router_pb2.CancelTaskResponse, ids(router_pb2.CancelTaskRequest)
        )
        judge(target, before_mib)
