"""A slot half-way between two nodes: every call succeeds whole, or changes nothing and says so."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import cast

import pytest
from redis.crc import key_slot

from tests.conftest import fleet_at
from tests.redis_keys import wrong_counts
from tests.scripts.half_moved import ACTIONS, KEYS, PLACE, SOON_S, Action, seeded
from tests.scripts.slots import Slot
from tests.scripts.world import (
    DAY_MS,
    LEASE_MS,
    a_task,
    an_id,
    claim_batch,
    claimed,
    client_of,
    stored,
)
from tradewind.errors import StoreMoving
from tradewind.store import region_client, scripts
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Claim,
    Finish,
    Record,
    Release,
    Settled,
    Stored,
)

OTHER = PLACE + 1


@pytest.fixture
def slot(cluster_ports: list[int]) -> Iterator[Slot]:
    slot = Slot(cluster_ports, key_slot(KEYS.identity.encode()))
    yield slot
    slot.settle()
    slot.close()


@pytest.fixture
async def store(slot: Slot, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RegionStore]:
    # Nobody waits for the slot here: a call that finds it moving answers so at once.
    monkeypatch.setattr(region_client, "PAUSE_FIRST_S", SOON_S)
    fleet = fleet_at("cluster", slot.ports)
    one = RegionStore(fleet.regions["eu-west"], fleet)
    await one.start()
    yield one
    await one.close()


def test_every_script_is_driven() -> None:
    driven = {name.partition(" ")[0].rstrip(",") for name in ACTIONS}
    # None of these meets a half-moved world: probe and seal make their key, identity greets.
    assert driven == set(scripts.names()) - {"probe", "seal", "identity"}


@pytest.mark.cluster
@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
async def test_a_call_is_whole_or_changes_nothing_at_every_key_boundary(
    slot: Slot, store: RegionStore, action: Action
) -> None:
    world = await seeded(store)
    slot.keep()
    image = slot.image()
    keys = list(image)
    digests, _ = slot.digests()

    async def refused_without(moved: list[bytes]) -> bool:
        """Whether the call found the slot moving; then nothing has changed on either side."""
        slot.open()
        slot.send(moved)
        try:
            await action(world)
        except StoreMoving:
            gone = {key: digests[key] for key in moved}
            left = {key: digest for key, digest in digests.items() if key not in gone}
            assert slot.digests() == [left, gone]
            slot.settle()
            return True
        slot.settle()
        assert wrong_counts(*slot.ports) == {}
        slot.restore(image)
        return False

    refused_at_once = await refused_without([])  # it makes a key that nobody has yet
    needed = [key for key in keys if await refused_without([key])]
    assert needed
    # The first n of them: one more that the call does not need is no other case.
    for key in keys[-1:] if refused_at_once else needed:
        await refused_without(keys[: keys.index(key) + 1])


@pytest.mark.cluster
async def test_a_call_is_repeated_until_its_slot_has_settled(
    slot: Slot, store: RegionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region_client, "PAUSE_FIRST_S", 0.01)
    slot.open()
    call = asyncio.create_task(store.refuse(an_id(PLACE), 1))
    await asyncio.sleep(0)
    assert not call.done()
    slot.settle()
    assert await asyncio.wait_for(call, SOON_S) is None


@pytest.mark.cluster
async def test_a_slot_that_moves_holds_up_no_other_partition(
    slot: Slot, store: RegionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = [await claimed(store, await stored(store, a_task(an_id(p)))) for p in (PLACE, OTHER)]
    slot.open()
    slot.send([KEYS.task(claims[0].task_id).encode()])

    async def learn() -> None:
        raise AssertionError("a call waits for the slot")

    monkeypatch.setattr(region_client, "PAUSE_FIRST_S", 0.01)
    monkeypatch.setattr(client_of(store).nodes, "learn", learn)
    tasks = [a_task(an_id(place)) for place in (OTHER, PLACE, OTHER)]
    outcomes, _ = await store.enqueue(tasks, timeout_s=SOON_S)
    assert [type(each) for each in outcomes] == [Stored, StoreMoving, Stored]
    alone, _ = await store.enqueue(tasks[1:2], timeout_s=SOON_S)
    assert [type(each) for each in alone] == [StoreMoving]
    settled = await store.finish([Finish(claim, b"r", "", DAY_MS) for claim in claims])
    assert [type(each) for each in settled] == [StoreMoving, Settled]
    renewed = await store.renew(claims[:1], {"mail": LEASE_MS})
    assert [type(each) for each in renewed] == [StoreMoving]
    for call in (
        claim_batch(store, place=PLACE),
        store.sweep(PLACE, worker_id="w1", queues=["mail"], courier=False),
        store.reap(PLACE, limit=1),
    ):
        with pytest.raises(StoreMoving):
            await call


@pytest.mark.cluster
async def test_reads_find_a_task_on_either_side_of_a_moving_slot(
    slot: Slot, store: RegionStore
) -> None:
    gone = await stored(store, a_task(an_id(PLACE)))
    here = await stored(store, a_task(an_id(PLACE)))
    slot.open()
    slot.send([KEYS.task(gone.task_id).encode()])
    for task in (gone, here):
        record = await store.read(task.task_id)
        assert isinstance(record, Record)
        assert record.task_id == task.task_id
    assert await store.read(an_id(PLACE)) is None


@pytest.mark.cluster
async def test_a_node_is_probed_by_a_partition_that_does_not_move(
    slot: Slot, store: RegionStore
) -> None:
    slot.open()
    assert (await store.probe()).rtt_ms > 0


@pytest.mark.cluster
async def test_a_new_connection_is_greeted_while_a_slot_moves(
    slot: Slot, store: RegionStore
) -> None:
    slot.open()
    slot.send([KEYS.identity.encode()])
    fleet = fleet_at("cluster", slot.ports)
    another = RegionStore(fleet.regions["eu-west"], fleet)
    try:
        for place in range(1, 16):
            await stored(another, a_task(an_id(place)))
    finally:
        await another.close()


@pytest.mark.cluster
async def test_everything_follows_a_slot_to_its_new_owner(
    slot: Slot, store: RegionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region_client, "PAUSE_FIRST_S", 0.01)
    task = await stored(store, a_task(an_id(PLACE)))
    changes = cast("AsyncGenerator[str]", store.changes())
    for _ in slot.ports:
        assert await asyncio.wait_for(anext(changes), SOON_S) == ""
    assert await store.wait(["mail"], [PLACE], timeout_s=SOON_S) == PLACE
    wait = asyncio.create_task(store.wait(["mail"], [PLACE], timeout_s=SOON_S))
    try:
        slot.hand_over()
        assert await store.watch(task.task_id) is not None
        await stored(store, a_task(an_id(PLACE)))
        assert await wait == PLACE
        async with asyncio.timeout(SOON_S):
            while await anext(changes) != task.task_id:
                claim = await claimed_first(store)
                await store.release([Release(claim)])
    finally:
        await changes.aclose()
        slot.hand_over()


async def claimed_first(store: RegionStore) -> Claim:
    return (await claim_batch(store, place=PLACE, limit=1)).claims[0]


@pytest.mark.cluster
async def test_calls_that_wait_for_no_slot_follow_one_that_has_moved(
    slot: Slot, store: RegionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region_client, "PAUSE_FIRST_S", 0.01)
    slot.hand_over()
    try:
        assert (await store.probe()).rtt_ms > 0
        assert (await claim_batch(store, place=PLACE)).claims == ()
    finally:
        slot.hand_over()
    task = await stored(store, a_task(an_id(PLACE)))
    slot.hand_over()
    try:
        assert isinstance(await store.read(task.task_id), Record)
        await claimed(store, task)
    finally:
        slot.hand_over()


@pytest.mark.cluster
async def test_a_wait_goes_on_while_a_slot_moves_and_hears_of_work_afterwards(
    slot: Slot, store: RegionStore
) -> None:
    slot.open()
    wait = asyncio.create_task(store.wait(["mail"], [PLACE], timeout_s=SOON_S))
    done, _ = await asyncio.wait([wait], timeout=0.1)  # it is told ASK, and asks again
    assert not done
    slot.settle()
    await stored(store, a_task(an_id(PLACE)))
    assert await asyncio.wait_for(wait, SOON_S) == PLACE
