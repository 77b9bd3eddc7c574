"""Case C36: payloads at the edges of the limit, and callers who send far more."""

import asyncio
import hashlib
import json
import sys
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import grpc
import grpc.aio
import psutil
import pytest
import pytest_asyncio
from google.rpc import error_details_pb2

from tests.harness.yard import Yard
from tests.rpc.running import answered, spec
from tradewind import statuses
from tradewind.errors import PayloadTooLarge, TradewindError
from tradewind.limits import MAX_PAYLOAD_BYTES as M
from tradewind.limits import MIB
from tradewind.v1 import router_pb2, router_pb2_grpc

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROOT = Path(__file__).parents[2]
BINARY = "application/octet-stream"
# What a router may grow by under the flood: a message of each client at the limit that gRPC
# enforces (8 MiB), twice, for its parsed copy.
MEMORY_A_CLIENT_BYTES = 16 * MIB


@pytest_asyncio.fixture(loop_scope="session")
async def router(world: Yard) -> AsyncIterator[Any]:
    """RouterService without the SDK, which would refuse to send what is too large."""
    options = [("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(world.router("eu-west"), options=options) as channel:
        yield router_pb2_grpc.RouterServiceStub(channel)


async def submit(router: Any, payload: bytes, *, gzip: bool = False, **fields: Any) -> str:
    fields = {"name": "digest", "payload": payload, "content_type": BINARY} | fields
    request = router_pb2.SubmitTaskRequest(spec=spec(**fields))
    squeezed = grpc.Compression.Gzip if gzip else grpc.Compression.NoCompression
    return (await answered(router.SubmitTask(request, timeout=30, compression=squeezed))).task_id


def text_of(size: int) -> bytes:
    """A JSON object of exactly `size` bytes, most of them in characters of several bytes."""
    frame = len(json.dumps({"t": ""}))
    wide, rest = divmod(size - frame, len("\N{SAILBOAT}".encode()))
    text = json.dumps({"t": "\N{SAILBOAT}" * wide + "x" * rest}, ensure_ascii=False).encode()
    assert len(text) == size
    return text


KEPT: dict[str, tuple[bytes, dict[str, Any]]] = {
    "one byte": (b"\xff", {}),
    "one below the limit": (b"\x00\xff" * (M // 2 - 1) + b"\n", {}),
    "the limit": (bytes(range(256)) * (M // 256), {}),
    "the limit, compressed on the wire": (bytes(M), {"gzip": True}),
    "the limit, text of wide characters": (text_of(M), {"content_type": "application/json"}),
}


@pytest.mark.parametrize(("payload", "how"), KEPT.values(), ids=KEPT)
async def test_c36_up_to_the_limit_the_handler_gets_the_same_bytes(
    world: Yard, router: Any, payload: bytes, how: dict[str, Any]
) -> None:
    task_id = await submit(router, payload, **how)
    async with world.client("eu-west") as client:
        task = await client.wait(task_id, timeout=30)
    assert task.result == hashlib.sha256(payload).hexdigest()
    assert world.ledger.count("start") == {task_id: 1}


REFUSED: dict[str, tuple[int, dict[str, Any], bool]] = {
    "one above the limit": (M + 1, {}, True),
    "above it, compressed to nothing": (M + 1, {"gzip": True}, True),
    "one below 4 MiB": (4 * MIB - 1, {}, True),
    "one above 4 MiB": (4 * MIB + 1, {}, True),
    # gRPC itself refuses what is above its limit for a message, before any code of ours runs.
    "64 MiB": (64 * MIB, {}, False),
    "64 MiB, compressed to nothing": (64 * MIB, {"gzip": True}, False),
}


@pytest.mark.parametrize(("size", "how", "ours"), REFUSED.values(), ids=REFUSED)
async def test_c36_above_the_limit_nothing_is_stored_and_the_limit_is_told(
    world: Yard, router: Any, size: int, how: dict[str, Any], ours: bool
) -> None:
    mark = f"c36-{uuid.uuid4().hex}"
    keys: dict[str, Any] = {"idempotency_key": mark, "tenant": mark}
    with pytest.raises(TradewindError) as refusal:
        await submit(router, bytes(size), **how, **keys)

    error: Any = refusal.value
    details = list[Any](error.status.details)
    assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    if ours:
        assert isinstance(refusal.value, PayloadTooLarge)
        assert (refusal.value.size_bytes, refusal.value.limit_bytes) == (size, M)
        assert not any(each.Is(error_details_pb2.RetryInfo.DESCRIPTOR) for each in details)
    else:
        assert details == []
        assert "larger than max" in str(refusal.value)
    assert not any(world.mentions(region, mark) for region in world.regions)
    # No mark of it is left either: the same key is new, with another payload.
    async with world.client("eu-west") as client:
        receipt = await client.submit(
            "digest", b"small", content_type=BINARY, idempotency_key=mark, tenant=mark
        )
        assert not receipt.duplicate
        assert world.mentions(receipt.region, mark), "what is stored would have been found"
        await client.wait(receipt.task_id, timeout=30)


async def test_c36_a_batch_answers_for_each_of_its_tasks(world: Yard, router: Any) -> None:
    sizes = (1, M + 1, M, 0)
    specs = [spec(name="digest", payload=bytes(size), content_type=BINARY) for size in sizes]
    answer = await router.SubmitTasks(router_pb2.SubmitTasksRequest(specs=specs))
    small, large, limit, empty = answer.results
    error = statuses.from_status(large.error)
    assert isinstance(error, PayloadTooLarge)
    async with world.client("eu-west") as client:
        for size, result in ((1, small), (M, limit), (0, empty)):
            task = await client.wait(result.accepted.task_id, timeout=30)
            assert task.result == hashlib.sha256(bytes(size)).hexdigest()
    assert len(world.ledger.count("start")) == 3


@asynccontextmanager
async def flood(address: str, clients: int) -> AsyncGenerator[None]:
    """Too much from many at once; runs in the block, and has been refused before it begins."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.harness.flood", address, str(clients)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    said, more = set[int](), asyncio.Event()

    async def drain(letters: asyncio.StreamReader) -> None:
        while chunk := await letters.read(2**16):
            said.update(chunk)
            more.set()
        more.set()

    try:
        assert await process.stdout.readexactly(3 * clients) == b"x" * 3 * clients
        draining = asyncio.create_task(drain(process.stdout))
        yield
        await more.wait()  # what the block saw was the flood, however short it was
        assert process.returncode is None, "a message that is too large had another answer"
    finally:
        process.kill()
        await process.wait()
    await draining
    assert said == set(b"x")


@pytest.mark.parametrize(
    ("clients", "submits"),
    [
        pytest.param(6, 10, id="short"),
        pytest.param(50, 200, id="full", marks=[pytest.mark.long, pytest.mark.timeout(240)]),
    ],
)
async def test_c36_a_flood_of_too_much_leaves_others_and_memory_alone(
    world: Yard, clients: int, submits: int
) -> None:
    pid = world.supervisor.pid_of("router-eu-west")
    assert pid is not None
    process = psutil.Process(pid)
    took_s: list[float] = []
    async with world.client("eu-west") as client:

        async def one() -> str:
            began_s = time.perf_counter()
            receipt = await client.submit("sleep", {"seconds": 0})
            took_s.append(time.perf_counter() - began_s)
            return receipt.task_id

        ids = [await one() for _ in range(submits)]
        usual_s, grown = median(took_s), 0
        took_s.clear()
        before = process.memory_info().rss
        async with flood(world.router("eu-west"), clients):
            for _ in range(submits):
                ids.append(await one())
                grown = max(grown, process.memory_info().rss - before)
        for task_id in ids:
            await client.wait(task_id, timeout=30)
    assert world.supervisor.pid_of("router-eu-west") == pid
    assert world.ledger.count("done") == dict.fromkeys(ids, 1)
    print(f"usual {usual_s * 1e3:.1f} ms, in the flood {median(took_s) * 1e3:.1f} ms, {grown:,} B")
    assert grown < clients * MEMORY_A_CLIENT_BYTES
    if clients == 50:
        assert median(took_s) <= 2 * usual_s
