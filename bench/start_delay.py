"""SubmitTask to the handler's start on an idle system, beside a bare gRPC echo.

One region, one router, one worker pool, real processes; each repetition times echoes and submits
in turn, one at a time. The ratio of the medians is the figure.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import grpc

from bench.echo import METHOD
from bench.machine import Figure
from bench.marks import ENTRY, LEDGER_ENV
from tradewind.local.embedded import EmbeddedFleet
from tradewind.local.plan import EmbeddedOptions
from tradewind.regions import load
from tradewind.v1 import router_pb2, router_pb2_grpc, task_pb2

PAUSE_S = 0.02  # between calls: the system is idle again
REGIONS = """\
version: 1
regions:
  here: {redis: "redis://127.0.0.1:6401", residency: [one]}
"""


def measure(*, repetitions: int, calls: int) -> dict[str, Any]:
    """Run the measurement. Milliseconds, and ratios to the echo of the same repetition."""
    with tempfile.TemporaryDirectory(prefix="tradewind-bench-") as folder:
        home = Path(folder)
        (home / "regions.yaml").write_text(REGIONS)
        ledger = home / "ledger"
        ledger.touch()
        os.environ[LEDGER_ENV] = str(ledger)
        options = EmbeddedOptions(
            config=home / "regions.yaml",
            app=f"{Path(__file__).parent / 'marks.py'}:app",
            data_dir=home / "data",
            ephemeral_ports=True,
        )
        fleet = EmbeddedFleet(load(home / "regions.yaml"), options)
        return asyncio.run(_with(fleet, ledger, repetitions, calls))


async def _with(fleet: EmbeddedFleet, ledger: Path, repetitions: int, calls: int) -> dict[str, Any]:
    echo = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.echo", stdout=asyncio.subprocess.PIPE
    )
    try:
        port = int(await _line(echo))
        await fleet.start()
        try:
            router = fleet.endpoints["here"].grpc
            return await _measure(f"127.0.0.1:{port}", router, ledger, repetitions, calls)
        finally:
            await fleet.stop()
    finally:
        echo.terminate()
        await echo.wait()


async def _measure(
    echo: str, router: str, ledger: Path, repetitions: int, calls: int
) -> dict[str, Any]:
    async with grpc.aio.insecure_channel(echo) as bare, grpc.aio.insecure_channel(router) as full:
        call = bare.unary_unary(
            METHOD,
            request_serializer=router_pb2.SubmitTaskRequest.SerializeToString,
            response_deserializer=router_pb2.SubmitTaskResponse.FromString,
        )
        submit = router_pb2_grpc.RouterServiceStub(full).SubmitTask
        echoes: list[float] = []
        answers: list[float] = []
        starts: list[float] = []
        p99: list[float] = []
        number = 0
        for repetition in range(repetitions + 1):  # the first warms up
            echoed = [(await _timed(call, _request(0)))[1] for _ in range(calls)]
            asked: dict[int, float] = {}
            answered: list[float] = []
            for _ in range(calls):
                number += 1
                asked[number], took_ms = await _timed(submit, _request(number))
                answered.append(took_ms)
            begun = await asyncio.to_thread(_begun, ledger, number)
            delays = sorted((begun[n] - asked[n]) * 1000 for n in asked)
            if repetition:
                echoes.append(statistics.median(echoed))
                answers.append(statistics.median(answered))
                starts.append(statistics.median(delays))
                p99.append(delays[int(len(delays) * 0.99)])
    ratios = [start / echo_ms for start, echo_ms in zip(starts, echoes, strict=True)]
    return {
        "echo_p50_ms": str(Figure.of(echoes)),
        "submit_answer_p50_ms": str(Figure.of(answers)),
        "submit_to_start_p50_ms": str(Figure.of(starts)),
        "submit_to_start_p99_ms": str(Figure.of(p99)),
        "submit_to_start_over_echo": str(Figure.of(ratios)),
        "request_id": "on",
        "calls": calls,
        "repetitions": repetitions,
    }


async def _line(process: asyncio.subprocess.Process) -> bytes:
    if process.stdout is None:
        raise RuntimeError("start the process with a pipe")
    return await process.stdout.readline()


async def _timed(call: Any, request: router_pb2.SubmitTaskRequest) -> tuple[float, float]:
    """When the call began (monotonic seconds) and how long it took (ms)."""
    await asyncio.sleep(PAUSE_S)
    began_s = time.perf_counter()
    await call(request)
    return began_s, (time.perf_counter() - began_s) * 1000


def _request(number: int) -> router_pb2.SubmitTaskRequest:
    spec = task_pb2.TaskSpec(
        name="bench.mark",
        payload=json.dumps({"number": number}).encode(),
        request_id=uuid.uuid4().hex,
        origin_region="here",
    )
    return router_pb2.SubmitTaskRequest(spec=spec)


def _begun(ledger: Path, last: int) -> dict[int, float]:
    """Start times by number, once task `last` and all before it have started."""
    while ledger.stat().st_size < last * ENTRY.size:
        time.sleep(0.05)
    return dict(ENTRY.iter_unpack(ledger.read_bytes()))
