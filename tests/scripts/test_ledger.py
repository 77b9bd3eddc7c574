"""reserve, confirm, unreserve, forget: who already submitted this."""

from typing import Any

from tests.scripts.world import DAY_MS, a_mark, an_id, keys_at, place_of, snapshot
from tradewind.store.region_store import RegionStore
from tradewind.task import LedgerHit, LedgerMark

MARK = a_mark()
HOME = place_of(MARK)
ENTRY = keys_at(HOME).entry(MARK.key)


async def hit_of(store: RegionStore, mark: LedgerMark, task_id: str, epoch: int = 1) -> LedgerHit:
    hit = await store.reserve(mark, task_id, "eu-west", epoch)
    assert hit is not None
    return hit


async def test_a_first_reservation_lives_as_long_as_its_window(
    store: RegionStore, raw: Any
) -> None:
    assert await store.reserve(MARK, an_id(), "us-east", 1) is None
    assert DAY_MS - 10_000 < raw.pttl(ENTRY) <= DAY_MS


async def test_an_entry_of_a_request_id_lies_with_its_task(store: RegionStore, raw: Any) -> None:
    mark = a_mark(business=False)
    assert await store.reserve(mark, an_id(7), "us-east", 1) is None
    assert raw.exists(keys_at(7).entry(mark.key)) == 1


async def test_a_repeat_of_the_same_reservation_is_reserved_again(store: RegionStore) -> None:
    task_id = an_id()
    assert await store.reserve(MARK, task_id, "us-east", 1) is None
    assert await store.reserve(MARK, task_id, "us-east", 1) is None


async def test_somebody_elses_reservation_is_a_hit_in_flight(store: RegionStore) -> None:
    first = an_id()
    await store.reserve(MARK, first, "us-east", 1)
    hit = await hit_of(store, MARK, an_id())
    assert (hit.task_id, hit.region, hit.epoch, hit.confirmed) == (first, "us-east", 1, False)
    assert 0 < hit.lease_left_ms <= 10_000


async def test_a_reservation_moves_on_by_one_epoch_to_another_region(store: RegionStore) -> None:
    task_id = an_id()
    await store.reserve(MARK, task_id, "us-east", 1)
    assert await store.reserve(MARK, task_id, "ap-south", 2) is None
    hit = await hit_of(store, MARK, an_id())
    assert (hit.region, hit.epoch) == ("ap-south", 2)


async def test_of_two_that_move_it_on_from_one_epoch_the_second_is_told(
    store: RegionStore,
) -> None:
    # Both drive one submit, its first caller and an adopter: the task may not go to two regions.
    task_id = an_id()
    await store.reserve(MARK, task_id, "us-east", 1)
    assert await store.reserve(MARK, task_id, "ap-south", 2) is None
    hit = await hit_of(store, MARK, task_id, 2)
    assert (hit.task_id, hit.region, hit.epoch) == (task_id, "ap-south", 2)
    behind = await hit_of(store, MARK, task_id, 1)
    assert behind.epoch == 2
    ahead = await hit_of(store, MARK, task_id, 4)
    assert ahead.epoch == 2


async def test_confirm_and_unreserve_compare_id_and_epoch(store: RegionStore, raw: Any) -> None:
    task_id = an_id()
    await store.reserve(MARK, task_id, "us-east", 2)
    before = snapshot(raw, HOME)
    for other, epoch in ((an_id(), 2), (task_id, 1), (task_id, 3)):
        assert not await store.confirm(MARK, other, epoch)
        assert not await store.unreserve(MARK, other, epoch)
    assert snapshot(raw, HOME) == before


async def test_a_confirmed_entry_answers_and_cannot_be_taken_back(store: RegionStore) -> None:
    task_id = an_id()
    await store.reserve(MARK, task_id, "us-east", 1)
    assert await store.confirm(MARK, task_id, 1)
    assert await store.confirm(MARK, task_id, 1)
    assert not await store.unreserve(MARK, task_id, 1)
    hit = await hit_of(store, MARK, an_id())
    assert (hit.confirmed, hit.lease_left_ms, hit.mine, hit.same_payload) == (True, 0, True, True)
    moved_on = await hit_of(store, MARK, task_id, 2)
    assert moved_on.epoch == 1


async def test_an_unreserved_entry_leaves_nothing(store: RegionStore, raw: Any) -> None:
    task_id = an_id()
    await store.reserve(MARK, task_id, "us-east", 1)
    assert await store.unreserve(MARK, task_id, 1)
    assert not raw.exists(ENTRY)
    assert not await store.unreserve(MARK, task_id, 1)
    assert not await store.confirm(MARK, task_id, 1)


async def test_a_reservation_past_its_lease_is_adopted_by_one(store: RegionStore, raw: Any) -> None:
    first = an_id()
    await store.reserve(MARK, first, "us-east", 1)
    raw.hset(ENTRY, "le", 1)
    assert (await hit_of(store, MARK, an_id())).adopted
    second = await hit_of(store, MARK, an_id())
    assert not second.adopted
    assert second.lease_left_ms > 0


async def test_another_payload_does_not_adopt(store: RegionStore, raw: Any) -> None:
    await store.reserve(MARK, an_id(), "us-east", 1)
    raw.hset(ENTRY, "le", 1)
    hit = await hit_of(store, a_mark(digest=b"e" * 16), an_id())
    assert (hit.adopted, hit.same_payload, hit.lease_left_ms) == (False, False, 0)


async def test_the_entry_of_a_cancelled_submit_is_forgotten_confirmed_or_not(
    store: RegionStore, raw: Any
) -> None:
    for confirmed in (False, True):
        task_id = an_id()
        await store.reserve(MARK, task_id, "us-east", 1)
        if confirmed:
            await store.confirm(MARK, task_id, 1)
        assert await store.forget(MARK, task_id)
        assert not raw.exists(ENTRY)
        assert not await store.forget(MARK, task_id)
        assert not await store.confirm(MARK, task_id, 1)


async def test_nobody_forgets_the_entry_of_another_task(store: RegionStore, raw: Any) -> None:
    # A cancels, its key is free, B submits with it; A's router repeats the forget.
    first, second = an_id(), an_id()
    await store.reserve(MARK, first, "us-east", 1)
    await store.forget(MARK, first)
    assert await store.reserve(MARK, second, "us-east", 1) is None
    before = snapshot(raw, HOME)
    assert not await store.forget(MARK, first)
    assert snapshot(raw, HOME) == before


async def test_a_forgotten_request_id_is_looked_for_where_its_task_lies(
    store: RegionStore, raw: Any
) -> None:
    mark, task_id = a_mark(business=False), an_id(7)
    await store.reserve(mark, task_id, "us-east", 1)
    assert await store.forget(mark, task_id)
    assert not raw.exists(keys_at(7).entry(mark.key))
