"""Cases C07, C11 and C42 on three primaries, where one that is told on a single node may hide."""

import asyncio
import os
import random
import re
import signal
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases import test_c42_metrics as c42
from tests.cases import test_names as c11
from tests.cases.clustered import Clustered, clustered, is_in_order
from tests.redis_keys import connected
from tradewind.local.scratch import cluster_nodes

APP = Path(__file__).with_name("ledger_app.py")
QUEUES = """{lease: 1s, attempts: 2, backoff: {initial: 20ms, factor: 2, max: 100ms}}
  "a:b": {}
  "a:b:0": {}
  "a/b": {}
  "..": {}"""
FIELDS = ["queue", "name", "tenant", "affinity_key", "idempotency_key"]
TASKS = 50
SILENT_S = 30.0
BACK_WITHIN_S = 10.0  # C07's own bound

pytestmark = pytest.mark.cluster


@pytest.fixture
async def region(tmp_path: Path, cluster_ports: list[int]) -> AsyncIterator[Clustered]:
    """A region on the session's Cluster, emptied."""
    async with clustered(tmp_path, cluster_ports, queues=QUEUES, app=APP) as running:
        yield running
        await is_in_order(cluster_ports)


async def test_c11_odd_names_on_three_primaries(region: Clustered) -> None:
    world: Any = region
    for field in FIELDS:
        region.ledger = region.ledger.from_here()
        await c11.test_c11_an_odd_text_works_or_is_refused_by_name(world, field)
    for told in (
        c11.test_c11_a_handler_name_with_every_permitted_sign_is_run,
        c11.test_c11_dead_tasks_with_odd_texts_are_listed_as_they_were_sent,
        c11.test_c11_names_that_differ_never_share_a_task,
    ):
        region.ledger = region.ledger.from_here()
        await told(world)


@pytest.mark.long
async def test_c07_connections_to_all_nodes_are_made_anew(
    region: Clustered, cluster_ports: list[int]
) -> None:
    for _ in range(3):
        for port in cluster_ports:
            connected(port).execute_command("CLIENT", "KILL", "TYPE", "normal")
        await asyncio.sleep(0)
    await fifty_run_once(region)


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_c07_nodes_that_fall_silent_are_noticed_told_and_survived(tmp_path: Path) -> None:
    with cluster_nodes(tmp_path / "cluster") as nodes:
        ports = [node.port for node in nodes]
        async with clustered(tmp_path, ports, app=APP) as region:
            await fifty_run_once(region)
            await region.lab.until(lambda: is_ready(region))
            for node in nodes:
                os.kill(node.pid, signal.SIGSTOP)
            await region.lab.until(lambda: is_not_ready(region))
            await asyncio.sleep(SILENT_S)
            assert not await is_ready(region), "alive and ready, and cannot take a task"
            for node in nodes:
                os.kill(node.pid, signal.SIGCONT)
            back_at = time.monotonic()
            assert await fifty_run_once(region) - back_at <= BACK_WITHIN_S
            await region.lab.until(lambda: is_ready(region))
            assert time.monotonic() - back_at <= BACK_WITHIN_S


@pytest.mark.long
async def test_c42_nothing_that_callers_send_makes_a_series(region: Clustered) -> None:
    mark = f"c42{uuid.uuid4().hex[:12]}"
    async with region.client() as client:
        await c42.send(client, mark, random.Random(42), 300, 100, 60)
    page = (await region.pages()).decode()
    assert mark not in page, "no id, tenant, label or name of a caller's is a label"
    queues = set(re.findall(r'\bqueue="([^"]*)"', page))
    assert {"other"} < queues <= {"default", "other", "a:b", "a:b:0", "a/b", ".."}
    assert len(page.splitlines()) < 2 * c42.MOST_LINES


async def fifty_run_once(region: Clustered) -> float:
    """Store them past the router, and wait: each has started once. Says when the last one had."""
    ledger = region.ledger.from_here()
    ids = [await region.lab.submit("sleep", {"seconds": 0}) for _ in range(TASKS)]
    for task_id in ids:
        await region.lab.ended(task_id)
    assert ledger.count("start") == dict.fromkeys(ids, 1)
    return max(line.at for line in ledger.lines(event="start"))


async def is_ready(region: Clustered) -> bool:
    """What the worker says of itself."""
    return await region.lab.page(region.worker_pages[0], "/readyz") == "ready\n"


async def is_not_ready(region: Clustered) -> bool:
    return not await is_ready(region)
