"""What has been done under a key is not done again by a copy that slipped past the ledger.

A copy comes about where the home of a key was away (`on_home_unreachable: accept`) or has lost its
entry; here the entry is removed by hand.
"""

import uuid
from typing import Any, cast

import pytest

from tests.harness.yard import Yard

pytestmark = pytest.mark.asyncio(loop_scope="session")


def forget_all_keys(world: Yard) -> None:
    """What ledgers lose that come back without their last writes."""
    for region in world.regions:
        with world.redis(region) as store:
            keys = list(cast("Any", store).scan_iter(match="*:led:*", count=1000))
            if keys:
                store.delete(*keys)


async def test_a_copy_in_the_same_region_gets_the_first_result_and_never_starts(
    world: Yard,
) -> None:
    key = uuid.uuid4().hex
    async with world.client("eu-west") as client:
        options: Any = {"idempotency_key": key, "pin_region": "eu-west"}
        first = await client.submit("echo", {"value": key}, **options)
        await client.wait(first.task_id, timeout=30)
        forget_all_keys(world)

        copy = await client.submit("echo", {"value": key}, **options)
        done = await client.wait(copy.task_id, timeout=30)

    assert copy.task_id != first.task_id
    assert done.result == key
    assert world.ledger.count("start") == {first.task_id: 1}


async def test_a_copy_that_a_courier_brings_gets_the_first_result_and_never_starts_there(
    world: Yard,
) -> None:
    key = uuid.uuid4().hex
    args = {"regions": ["eu-west"], "said": key}
    async with world.client("eu-west") as client:
        options: Any = {"idempotency_key": key, "labels": {"start": "eu"}}
        options["residency"] = ["eu", "us"]  # both are moved to the same region
        first = await client.submit("fail.in", args, **options)
        done = await client.wait(first.task_id, timeout=30)
        forget_all_keys(world)

        copy = await client.submit("fail.in", args, **options)
        moved = await client.wait(copy.task_id, timeout=30)

    assert copy.task_id != first.task_id
    assert [hop.region for hop in moved.hops] == ["eu-west", done.region]
    assert moved.result == done.result == done.region
    assert set(world.ledger.regions(copy.task_id)) == {"eu-west"}


async def test_without_dedup_a_fingerprint_that_was_done_stops_nothing(world: Yard) -> None:
    async with world.client("eu-west") as client:
        ids: list[str] = []
        for _ in range(2):
            options: Any = {"pin_region": "eu-west", "affinity_key": "one partition"}
            receipt = await client.submit("echo", {"value": 1}, **options)
            await client.wait(receipt.task_id, timeout=30)
            ids.append(receipt.task_id)
    assert world.ledger.count("start") == dict.fromkeys(ids, 1)
