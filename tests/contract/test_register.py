"""The port Register: what a region promises and accepts of the control document."""

import pytest

from tests.any_store import AnyStore
from tests.contract.test_vitals import BEAT
from tests.scripts.world import client_of, keys_at
from tradewind.control import EMPTY, Barred, Control, Order, Pause, Stamp
from tradewind.errors import StoreContractBroken
from tradewind.store.region_store import RegionStore

PATIENCE_S = 5.0


def version(epoch: int, change_id: str = "c", **more: Pause) -> Control:
    return Control(Stamp(epoch, change_id), regions={"eu-west": Order("DRAINING")}, pauses=more)


async def promise(store: AnyStore, epoch: int, change_id: str = "c") -> Control | Barred:
    return await store.control_promise(Stamp(epoch, change_id), timeout_s=PATIENCE_S)


async def accept(store: AnyStore, control: Control) -> Barred | None:
    return await store.control_accept(control, timeout_s=PATIENCE_S)


async def control(store: AnyStore) -> Control:
    return await store.control(timeout_s=PATIENCE_S)


async def test_before_the_first_change_nothing_is_held(store: AnyStore) -> None:
    assert await control(store) == EMPTY
    assert await promise(store, 1) == EMPTY
    assert await control(store) == EMPTY, "a promise is no document"


async def test_what_was_accepted_is_held_and_told_with_the_next_promise(store: AnyStore) -> None:
    assert await accept(store, version(1)) is None
    assert await control(store) == version(1)
    assert await promise(store, 2) == version(1)


async def test_saying_it_twice_changes_nothing(store: AnyStore) -> None:
    for _ in range(2):
        assert await promise(store, 3) == EMPTY
    for _ in range(2):
        assert await accept(store, version(3)) is None
    assert await promise(store, 3) == version(3)


async def test_a_late_acceptance_does_not_pass_a_promise_of_a_higher_epoch(store: AnyStore) -> None:
    await promise(store, 2, "first")
    await promise(store, 3, "second")
    assert await accept(store, version(2, "first")) == Barred(3)
    assert await control(store) == EMPTY


async def test_an_epoch_is_promised_to_one_change_only(store: AnyStore) -> None:
    await promise(store, 2, "first")
    assert await promise(store, 2, "second") == Barred(2)
    assert await accept(store, version(2, "second")) == Barred(2)
    assert await promise(store, 1, "first") == Barred(2)


async def test_a_region_that_promised_nothing_takes_what_is_in_force_elsewhere(
    store: AnyStore,
) -> None:
    await accept(store, version(2))
    assert await accept(store, version(5)) is None
    assert await accept(store, version(2)) == Barred(5)
    assert await control(store) == version(5)


async def test_epochs_are_compared_as_numbers(store: AnyStore) -> None:
    await promise(store, 9)
    assert await promise(store, 10) == EMPTY
    assert await promise(store, 9) == Barred(10)
    assert await promise(store, 2**50) == EMPTY
    assert await promise(store, 2**50 - 1) == Barred(2**50)


async def test_readers_learn_it_with_what_they_read_and_write_anyway(store: AnyStore) -> None:
    await store.workers()
    assert store.held() == EMPTY
    await accept(store, version(1))
    await store.workers()
    assert store.held() == version(1)
    await accept(store, version(2, mail=Pause("ann", 7)))
    await store.heartbeat(BEAT)
    assert store.held() == version(2, mail=Pause("ann", 7))


async def test_other_readers_learn_it_the_same_way(redis_store: RegionStore) -> None:
    other = RegionStore(client_of(redis_store).region, client_of(redis_store).fleet)
    try:
        assert other.held() is None, "nothing was heard yet"
        await accept(redis_store, version(1))
        await other.workers()
        assert other.held() == version(1)
        await accept(redis_store, version(2))
        await other.heartbeat(BEAT)
        assert other.held() == version(2)
        sent = client_of(other).holding.known
        await accept(redis_store, version(3))
        await other.workers()
        client_of(other).holding.take(sent, b"")  # an answer to a question from before
        assert other.held() == version(2)
        await other.workers()
        assert other.held() == version(3)
    finally:
        await other.close()


async def test_a_document_that_cannot_be_read_is_no_vote_and_may_be_replaced(
    redis_store: RegionStore,
) -> None:
    await accept(redis_store, version(1))
    key = keys_at(0).control
    await client_of(redis_store).plain(0, [["HSET", key, "dc", "{", "st", "2 x"]])
    with pytest.raises(StoreContractBroken, match="cannot be read"):
        await control(redis_store)
    assert redis_store.held() is None
    assert await redis_store.workers() == [], "the census goes on"
    assert await accept(redis_store, version(3)) is None
    assert await control(redis_store) == version(3)
