"""A region on a Cluster tells the same, and changes the same, whichever node is asked first."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import fleet_at
from tests.redis_keys import leaked_keys, wrong_counts
from tests.rpc import labour
from tests.rpc.running import OWN_REGION, Running, answered, running
from tradewind.fleet import Health
from tradewind.ids import birth_partition
from tradewind.v1 import admin_pb2

PARTITIONS = 16
WAITING, DEAD = 3, 2  # of each partition


async def fill(serving: Running) -> tuple[list[str], list[str]]:
    """Tasks in every partition: ids of what waits, and of what is dead."""
    placed: Counter[int] = Counter()
    waiting: list[str] = []
    dead: list[str] = []
    number = 0
    while len(waiting) + len(dead) < PARTITIONS * (WAITING + DEAD):
        number += 1
        key = f"user-{number}"
        place = (await serving.explain(affinity_key=key)).partition
        if placed[place] == WAITING + DEAD:
            continue
        placed[place] += 1
        receipt = await serving.submit(affinity_key=key)
        assert birth_partition(receipt.task_id) == place
        if placed[place] <= DEAD:
            await labour.bury(serving.stores[OWN_REGION], receipt.task_id)
            dead.append(receipt.task_id)
        else:
            waiting.append(receipt.task_id)
    return waiting, dead


async def looks(serving: Running) -> tuple[int, int, set[str], int]:
    """Ready and dead by the counts, and the dead as they are listed, page by page."""
    queues = await answered(serving.admin.ListQueues(admin_pb2.ListQueuesRequest()))
    (queue,) = queues.queues
    listed: list[str] = []
    token, total = "", 0
    while True:
        request = admin_pb2.ListDeadTasksRequest(page_size=7, page_token=token)
        page = await answered(serving.admin.ListDeadTasks(request))
        listed += [task.task_id for task in page.tasks]
        token, total = page.next_page_token, page.total or total
        if not token:
            break
    assert len(set(listed)) == len(listed)
    return queue.pending, queue.dead, set(listed), total


async def redrive(serving: Running) -> Any:
    request = admin_pb2.RedriveDeadTasksRequest(filter=admin_pb2.DeadTaskFilter())
    return (await answered(serving.admin.RedriveDeadTasks(request, timeout=20))).count


async def purge(serving: Running) -> Any:
    request = admin_pb2.PurgeDeadTasksRequest(filter=admin_pb2.DeadTaskFilter())
    return (await answered(serving.admin.PurgeDeadTasks(request, timeout=20))).count


@pytest.mark.cluster
async def test_counts_lists_and_what_is_done_are_exact_from_any_seed(
    cluster_ports: list[int],
) -> None:
    every = [cluster_ports[n:] + cluster_ports[:n] for n in range(len(cluster_ports))]
    fleets = [
        replace(fleet_at("cluster", ports[:1]), health=Health(interval_ms=100)) for ports in every
    ]
    async with running(fleets[0]) as serving:
        waiting, dead = await fill(serving)
    expected = (len(waiting), len(dead), set(dead), len(dead))
    for fleet in fleets:
        async with running(fleet) as serving:
            assert await looks(serving) == expected
            assert await serving.stored() == {OWN_REGION: len(waiting)}
    async with running(fleets[1]) as serving:
        assert await redrive(serving) == len(dead)
    for fleet in fleets:
        async with running(fleet) as serving:
            assert (await looks(serving))[:2] == (len(waiting) + len(dead), 0)
    async with running(fleets[2]) as serving:
        for task_id in waiting:
            await labour.bury(serving.stores[OWN_REGION], task_id)
        assert await purge(serving) == len(waiting)
        assert (await looks(serving))[:2] == (len(dead), 0)
    assert wrong_counts(*cluster_ports) == {}
    assert [key for port in cluster_ports for key in leaked_keys(port)] == []
