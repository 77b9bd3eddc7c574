"""Case C07: an idle worker notices that its connection died, says so, and recovers by itself."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.scale import Scale
from tests.flow.lab import Lab, cut_connections, free_address
from tests.harness.links import way_to
from tradewind.local.scratch import RedisProcess
from tradewind.state import State

TASKS = 50
BACK_WITHIN_S = 10.0  # the case's own bound, at full length
SHORT = Scale(1.0, full=False).queue
FULL = [pytest.mark.long, pytest.mark.timeout(240)]


async def all_run_once(lab: Lab) -> float:
    """Submit, and check. Returns when the last one started, monotonic."""
    ids = [await lab.submit("sleep", {"seconds": 0}) for _ in range(TASKS)]
    for task_id in ids:
        assert (await lab.ended(task_id)).state is State.COMPLETED
    assert [[line.event for line in lab.lines(task_id)] for task_id in ids] == [
        ["start", "done"]
    ] * TASKS
    return max(line.at for line in lab.lines(event="start"))


@pytest.mark.parametrize(
    "pause_s", [pytest.param(0.0, id="short"), pytest.param(1.0, id="full", marks=FULL)]
)
async def test_c07_connections_cut_three_times_are_made_anew(
    lab: Lab, redis_servers: list[RedisProcess], pause_s: float
) -> None:
    worker = await lab.worker()
    for _ in range(3):
        cut_connections(redis_servers[0])
        await asyncio.sleep(pause_s)
    cut_s = time.monotonic()
    last_s = await all_run_once(lab)
    assert worker.poll() is None
    if pause_s:
        assert last_s - cut_s <= BACK_WITHIN_S


@pytest.mark.standalone  # the way to one server; tests/cases/test_on_cluster.py has the other
@pytest.mark.parametrize(
    ("down_s", "late"),
    [
        pytest.param(0.0, False, id="short"),
        pytest.param(60.0, False, id="full, connections forgotten", marks=FULL),
        pytest.param(60.0, True, id="full, packets late", marks=FULL),
    ],
)
async def test_c07_a_silent_network_is_noticed_told_and_survived(
    make_lab: Callable[..., Lab],
    redis_servers: list[RedisProcess],
    tmp_path: Path,
    down_s: float,
    late: bool,
) -> None:
    lab = make_lab(SHORT)
    lab.patience_s = 90
    address = free_address()

    async def ready() -> bool:
        return await lab.page(address, "/readyz") == "ready\n"

    async def not_ready() -> bool:
        return not await ready()

    async with way_to(redis_servers[0].port) as network:
        config = tmp_path / "by-the-way.yaml"
        text = lab.config.read_text()
        config.write_text(text.replace(f":{redis_servers[0].port}", f":{network.port}"))
        worker = await lab.worker("eu-west", "--config", str(config), "--http", address)
        await lab.until(ready)
        await network.become(reach="silent", forgets=not late)
        began_s = time.monotonic()
        await lab.until(not_ready)
        while time.monotonic() - began_s < down_s:
            assert not await ready(), "alive and ready, and cannot take a task"
            await asyncio.sleep(0.5)
        await network.become()
        back_s = time.monotonic()
        last_s = await all_run_once(lab)
        assert worker.poll() is None
        await lab.until(ready)
        if down_s:
            assert last_s - back_s <= BACK_WITHIN_S
            assert time.monotonic() - back_s <= BACK_WITHIN_S
        worker.terminate()
        await asyncio.to_thread(worker.wait, 20)
