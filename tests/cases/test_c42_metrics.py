"""Case C42: metrics stay few and true, whatever callers send and whoever dies."""

import asyncio
import contextlib
import os
import random
import re
import signal
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest

from tests.cases.scale import Scale
from tests.flow.lab import Lab, free_address
from tests.harness.yard import Yard
from tradewind import Client, TaskRequest
from tradewind.errors import InvalidTask
from tradewind.local.leash import leashed

ROOT = Path(__file__).parents[2]
MOST_LINES = 5_000  # the case's own bound, of one process
SCRAPE_S = 1.0  # the same
MEMORY_BYTES = 50 * 1024 * 1024
_SERIES = re.compile(r"^(tradewind_\w+(?:\{.*\})?) (\S+)$", re.MULTILINE)


def series(page: str) -> dict[str, float]:
    """Each sample of ours, by name and labels."""
    return {name: float(value) for name, value in _SERIES.findall(page)}


@pytest.mark.parametrize(
    ("tasks", "tenants", "names", "patience_s"),
    [
        pytest.param(300, 100, 60, 45.0, id="short"),
        pytest.param(
            50_000,
            5_000,
            2_000,
            600.0,
            id="full",
            marks=[pytest.mark.long, pytest.mark.timeout(1_500)],
        ),
    ],
)
@pytest.mark.asyncio(loop_scope="session")
async def test_c42_nothing_that_callers_send_makes_a_series(
    world: Yard, tasks: int, tenants: int, names: int, patience_s: float
) -> None:
    mark = f"c42{uuid.uuid4().hex[:12]}"
    dice = random.Random(42)
    routers = {
        r: psutil.Process(world.supervisor.pid_of(f"router-{r}") or 0) for r in world.regions
    }
    async with world.client("eu-west", deadline=patience_s) as client:
        memory = {region: one.memory_info().rss for region, one in routers.items()}
        await send(client, mark, dice, tasks, tenants, names)
        began_s = time.perf_counter()
        after = (await world.pages("eu-west")).decode()
        took_s = time.perf_counter() - began_s
    assert mark not in after, "no id, tenant, label or name of a caller's is a label"
    labels = {key: set(re.findall(rf'\b{key}="([^"]*)"', after)) for key in ("queue", "region")}
    assert {"other"} < labels["queue"] <= {"default", "other", "once", "a:b", "a:b:0", "a/b", ".."}
    assert labels["region"] <= {*world.regions, "none"}  # of a refused submit: none
    assert len(after.splitlines()) < 2 * MOST_LINES
    grown = {region: one.memory_info().rss - memory[region] for region, one in routers.items()}
    # Parked tickets of the cancelled tasks go with the sweeps: four names a partition each time.
    await world.is_in_order(patience_s)
    if tasks > 1_000:
        assert took_s < SCRAPE_S
        assert max(grown.values()) < MEMORY_BYTES, grown


async def send(
    client: Client, mark: str, dice: random.Random, tasks: int, tenants: int, names: int
) -> None:
    """Tasks of invented tenants, labels, queues and handlers; and regions that do not exist."""

    def options(number: int) -> Any:
        chosen: dict[str, Any] = {
            "tenant": f"{mark}-tenant-{number % tenants}",
            "labels": {f"{mark}-{number % tenants}": f"{mark}-{number}"},
            "idempotency_key": f"{mark}-{number}",
        }
        if number % 10 == 0:
            chosen["queue"] = f"{mark}-queue-{dice.randrange(names)}"
        return chosen

    def name(number: int) -> str:
        # The made-up queue has no worker, and the made-up handler has none either: such tasks wait.
        return f"{mark}-name-{dice.randrange(names)}" if number % 10 == 5 else "sleep"

    requests = [TaskRequest(name(n), {"seconds": 0}, options(n)) for n in range(tasks)]
    receipts = await client.submit_many(requests)
    failed = [one for one in receipts if isinstance(one, Exception)]
    assert failed == []
    for number in range(names):
        with pytest.raises(InvalidTask):
            await client.submit("sleep", {}, origin_region=f"{mark}-region-{number}")
    waiting = [
        receipt.task_id
        for number, receipt in enumerate(receipts)
        if number % 5 == 0 and not isinstance(receipt, Exception)
    ]
    room = asyncio.Semaphore(50)

    async def cancel(task_id: str) -> None:
        async with room:
            await client.cancel(task_id)

    await asyncio.gather(*map(cancel, waiting))


async def test_c42_the_metrics_of_a_killed_worker_process_stay_true(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab(Scale(1.0, full=False).queue)
    address = free_address()
    lab.start("eu-west", "--processes", "2", "--concurrency", "3", "--http", address)

    async def page() -> dict[str, float]:
        return series(await lab.page(address, "/metrics"))

    async def serves() -> bool:
        with contextlib.suppress(OSError):
            return bool(await page())
        return False

    async def both_live() -> bool:
        return sum(v for k, v in (await page()).items() if k.startswith(SLOTS)) == 6

    await lab.until(serves)
    await lab.until(both_live)
    ids = [await lab.submit("sleep", {"seconds": 0.05}) for _ in range(40)]
    for task_id in ids:
        await lab.ended(task_id)

    async def counted() -> bool:
        return (await page()).get(DONE) == 40

    await lab.until(counted)
    before = await page()
    busy = await lab.submit("sleep", {"seconds": 1.0})
    victim = (await lab.begun(busy))[0].pid
    os.kill(victim, signal.SIGKILL)

    async def replaced() -> bool:
        workers = [w.heartbeat.worker_id for w in await lab.stores["eu-west"].workers()]
        living = [one for one in workers if f"/{victim}/" not in one]
        return len(living) == 2 and await both_live()

    await lab.until(replaced)
    await lab.ended(busy)

    async def is_idle() -> bool:
        now = await page()
        return now.get(DONE) == 41 and now[f'{SLOTS}kind="busy",region="eu-west"}}'] == 0

    await lab.until(is_idle)
    after = await page()
    # Counters and histograms never go back, though a process that counted is gone.
    assert {
        k for k, v in before.items() if not k.startswith(SLOTS) and after.get(k, -1) < v
    } == set()
    assert after[f'{SLOTS}kind="free",region="eu-west"}}'] == 6
    assert [key for key in after if "pid" in key] == []


DONE = 'tradewind_tasks_processed_total{outcome="completed",queue="default",region="eu-west"}'
SLOTS = "tradewind_worker_slots{"
TAKEN = 'tradewind_tasks_submitted_total{outcome="accepted",queue="default",region="eu-west"}'


@pytest.mark.asyncio(loop_scope="session")
async def test_c42_the_metrics_of_a_killed_router_process_stay_true(
    world: Yard, tmp_path: Path
) -> None:
    command = [sys.executable, "-P", "-m", "router", "--config", str(world.config)]
    command += ["--region", "eu-west", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with (tmp_path / "router.log").open("wb") as log:
        parent = await asyncio.create_subprocess_exec(
            *leashed([*command, "--processes", "2"]),
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env={**os.environ, **world.env},
        )
    assert parent.stdout is not None
    try:
        _, at, http = (await parent.stdout.readline()).decode().split()
        address = http.removeprefix("http=")

        async def page() -> dict[str, float]:
            return series(await asyncio.to_thread(_get, address))

        async with Client(at.removeprefix("grpc="), origin_region="eu-west") as client:
            await submit_some(client, 20)
            before = await page()
            assert before[TAKEN] == 20
            victims = [c for c in psutil.Process(parent.pid).children() if "router" in c.cmdline()]
            assert len(victims) == 2
            for victim in victims:  # whichever of them had counted
                victim.kill()
            await submit_some(client, 10)
        after = await page()
    finally:
        with contextlib.suppress(ProcessLookupError):
            parent.terminate()
        await parent.wait()
    assert after[TAKEN] == 30
    assert {key for key, value in before.items() if _grows(key) and after[key] < value} == set()


def _grows(key: str) -> bool:
    return key.partition("{")[0].endswith(("_total", "_count", "_sum", "_bucket"))


async def submit_some(client: Client, count: int) -> None:
    for _ in range(count):
        await client.submit("sleep", {"seconds": 0}, pin_region="eu-west")


def _get(address: str) -> str:
    with urlopen(f"http://{address}/metrics", timeout=5) as answer:
        return answer.read().decode()
