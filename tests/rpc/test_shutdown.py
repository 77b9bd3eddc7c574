"""How a router leaves: first it says so, then it ends what it has begun, then the port closes."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from router.server import GRACE_S
from tests.harness.patience import until
from tests.redis_keys import connected
from tests.rpc.running import Running, answered, spec
from tradewind.errors import TradewindError
from tradewind.local.scratch import RedisProcess
from tradewind.stops import TOGETHER_S
from tradewind.v1 import router_pb2, router_pb2_grpc

ROOT = Path(__file__).parents[2]
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
LONG_S = 600.0  # no test waits for it
PATIENCE_S = 20.0
CLOSED = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}

Request = router_pb2.SubmitTaskStreamRequest


@asynccontextmanager
async def leaving(serving: Running, **times: float) -> AsyncGenerator[asyncio.Event]:
    """A router that was told to stop, and whose watcher has heard NOT_SERVING. Gives its hurry."""
    stub: Any = health_pb2_grpc.HealthStub(serving.channel)
    watching = stub.Watch(health_pb2.HealthCheckRequest())
    assert (await watching.read()).status == SERVING
    hurry = asyncio.Event()
    stopping = asyncio.create_task(serving.server.stop(hurry, **times))
    assert (await watching.read()).status == NOT_SERVING
    yield hurry
    async with asyncio.timeout(PATIENCE_S):
        await stopping
    # A watch of health, too, has ended by then, instead of holding up the router until the grace.
    with contextlib.suppress(grpc.aio.AioRpcError):
        assert await watching.read() is grpc.aio.EOF


async def refused_at_the_door(serving: Running) -> bool:
    """Whether the port is closed, for whoever comes anew."""
    async with grpc.aio.insecure_channel(serving.server.address) as channel:
        stub: Any = router_pb2_grpc.RouterServiceStub(channel)
        try:
            await stub.SubmitTask(router_pb2.SubmitTaskRequest(spec=spec()), timeout=5)
        except grpc.aio.AioRpcError as error:
            return error.code() is grpc.StatusCode.UNAVAILABLE
    return False


async def test_what_comes_after_not_serving_is_still_served(serving: Running) -> None:
    async with leaving(serving, grace_s=LONG_S, notice_s=LONG_S) as hurry:
        assert serving.gateway.ready() == (False, "shutting down")
        receipt = await serving.submit()
        assert (await serving.get(receipt.task_id)).task_id == receipt.task_id
        call = serving.router.SubmitTaskStream()
        await call.write(Request(sequence=1, specs=[spec()]))
        assert (await call.read()).sequence == 1
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert not await refused_at_the_door(serving)
        hurry.set()
    assert await refused_at_the_door(serving)


async def test_submits_under_way_are_answered_before_the_port_closes(serving: Running) -> None:
    pause = serving.stores["eu-west"].pause("enqueue", before=True)
    submitting = asyncio.create_task(serving.submit(pin_region="eu-west"))
    call = serving.router.SubmitTaskStream()
    await pause.reached.wait()
    second = serving.stores["us-east"].pause("enqueue", before=True)
    await call.write(Request(sequence=7, specs=[spec(pin_region="us-east")]))
    await second.reached.wait()
    async with leaving(serving, grace_s=LONG_S, notice_s=0):
        pause.over.set()
        second.over.set()
        assert (await submitting).region == "eu-west"
        assert (await call.read()).sequence == 7
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK
    assert await serving.stored() == {"eu-west": 1, "us-east": 1}


async def test_a_second_signal_cuts_off_what_is_under_way_and_what_was_sent_is_stored(
    serving: Running,
) -> None:
    pause = serving.stores["eu-west"].pause("enqueue", before=True)
    submitting = asyncio.create_task(serving.submit(pin_region="eu-west"))
    await pause.reached.wait()
    async with leaving(serving, grace_s=LONG_S, notice_s=LONG_S) as hurry:
        hurry.set()
        with pytest.raises(TradewindError) as cut:
            await submitting
        pause.over.set()  # or the stop would wait for it: nothing sent may be left behind
    error: Any = cut.value
    assert error.code is grpc.StatusCode.UNAVAILABLE
    assert await serving.stored() == {"eu-west": 1}


@asynccontextmanager
async def process(home: Path, redis_port: int) -> AsyncGenerator[tuple[Any, str]]:
    """A router process over one region; gives it and its address."""
    config = home / "regions.yaml"
    config.write_text(
        "version: 1\npartitions: 16\nregions:\n"
        f"  eu-west: {{redis: 'redis://127.0.0.1:{redis_port}', residency: [eu]}}\n"
    )
    router = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "router", "--config", str(config), "--region", "eu-west"),
        *("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert router.stdout is not None
    try:
        _, at, _ = (await router.stdout.readline()).decode().split()
        yield router, at.removeprefix("grpc=")
    finally:
        if router.returncode is None:
            router.kill()
            await router.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_process_that_waits_for_a_silent_region_ends_at_the_second_signal(
    own_redis: RedisProcess, tmp_path: Path, number: int
) -> None:
    async with (
        process(tmp_path, own_redis.port) as (router, address),
        grpc.aio.insecure_channel(address) as channel,
    ):
        health: Any = health_pb2_grpc.HealthStub(channel)
        stub: Any = router_pb2_grpc.RouterServiceStub(channel)
        watching = health.Watch(health_pb2.HealthCheckRequest())
        assert (await watching.read()).status == SERVING
        os.kill(own_redis.pid, signal.SIGSTOP)
        try:
            request = router_pb2.SubmitTaskRequest(spec=spec())
            submitting = asyncio.create_task(answered(stub.SubmitTask(request, timeout=60)))
            await asyncio.sleep(0)  # its bytes leave with the next call's, in this order
            await health.Check(health_pb2.HealthCheckRequest())
            router.send_signal(number)
            assert (await watching.read()).status == NOT_SERVING
            assert router.returncode is None
            await asyncio.sleep(2 * TOGETHER_S)  # sooner it would be a repeat of the first
            router.send_signal(number)
            with pytest.raises(TradewindError):
                await submitting
            _, said = await asyncio.wait_for(router.communicate(), GRACE_S - 2)
        finally:
            os.kill(own_redis.pid, signal.SIGCONT)
    assert router.returncode == 0
    assert b"Traceback" not in said


async def test_a_process_that_leaves_finishes_what_it_was_asked(
    own_redis: RedisProcess, tmp_path: Path
) -> None:
    async with (
        process(tmp_path, own_redis.port) as (router, address),
        grpc.aio.insecure_channel(address) as channel,
    ):
        stub: Any = router_pb2_grpc.RouterServiceStub(channel)
        receipts: list[str] = []

        async def submit_on_and_on() -> None:
            while True:
                request = router_pb2.SubmitTaskRequest(spec=spec())
                receipts.append((await answered(stub.SubmitTask(request, timeout=30))).task_id)

        submitting = [asyncio.create_task(submit_on_and_on()) for _ in range(8)]
        await until(lambda: len(receipts) > 40, "submits are answered")
        router.terminate()
        ends = await asyncio.gather(*submitting, return_exceptions=True)
        assert await asyncio.wait_for(router.wait(), PATIENCE_S) == 0
        # gRPC's words for a closed door, and for what stood in it. Neither has reached our code:
        assert {getattr(end, "code", None) for end in ends} <= CLOSED
    records = list(connected(own_redis.port).scan_iter("tw:*:t:*", count=1000))
    assert sorted(key.rpartition(":")[2] for key in records) == sorted(receipts)
