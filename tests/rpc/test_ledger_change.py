"""Keys across a change of the set of regions: docs/decisions/0005."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from router.reserve import Reservation
from tests.rpc.ledgers import GONE, identity_of, mint
from tests.rpc.running import Running, running
from tradewind.errors import HomeUnreachable, SubmitInFlight
from tradewind.fleet import Fleet, Region
from tradewind.task import LedgerMark, NewTask, Priority

KEYS = 16
X = "ap-south"  # the region that comes and goes


Change = Callable[[Fleet], Fleet]


def without(fleet: Fleet) -> Fleet:
    return replace(fleet, regions={name: r for name, r in fleet.regions.items() if name != X})


def announced(fleet: Fleet) -> Fleet:
    return with_x(fleet, replace(fleet.regions[X], new=True))


def weightless(fleet: Fleet) -> Fleet:
    return with_x(fleet, replace(fleet.regions[X], weight=0))


def whole(fleet: Fleet) -> Fleet:
    return fleet


def with_x(fleet: Fleet, region: Region) -> Fleet:
    return replace(fleet, regions={**fleet.regions, X: region})


#: Files that may be in force at two routers at the same time, older first.
STEPS: dict[str, tuple[Change, Change]] = {
    "it is announced": (without, announced),
    "it stays": (announced, whole),
    "it gets a weight": (weightless, whole),
    "it loses its weight": (whole, weightless),
    "it leaves": (weightless, without),
}
each_step_both_ways = pytest.mark.parametrize(
    ("older", "newer"),
    [*STEPS.values(), *((newer, older) for older, newer in STEPS.values())],
    ids=[*STEPS, *(f"{step}, taken back" for step in STEPS)],
)


@each_step_both_ways
async def test_duplicates_are_found_from_one_file_to_the_next(
    fleet: Fleet, older: Change, newer: Change
) -> None:
    async with running(older(fleet)) as before, running(newer(fleet), "us-east") as after:
        for number in range(KEYS):
            fields: dict[str, Any] = {"idempotency_key": f"k{number}", "pin_region": "eu-west"}
            first = await before.submit(**fields)
            again = await after.submit(**fields)
            assert (again.task_id, again.duplicate) == (first.task_id, True)
        assert await before.stored() == {"eu-west": KEYS}


@pytest.mark.parametrize(("older", "newer"), STEPS.values(), ids=STEPS)
async def test_identical_submits_at_routers_with_two_files_are_one_task(
    fleet: Fleet, older: Change, newer: Change
) -> None:
    async with running(older(fleet)) as before, running(newer(fleet), "us-east") as after:

        async def submit(router: Running, number: int) -> str:
            fields: dict[str, Any] = {"idempotency_key": f"k{number}", "pin_region": "eu-west"}
            return (await router.insist(**fields)).task_id

        async def crowd(number: int) -> None:
            ids = await asyncio.gather(*(submit(r, number) for r in (before, after) * 3))
            assert len(set(ids)) == 1

        await asyncio.gather(*map(crowd, range(KEYS)))
        assert await before.stored() == {"eu-west": KEYS}


@each_step_both_ways
async def test_repeats_by_request_id_are_found_from_one_file_to_the_next(
    fleet: Fleet, older: Change, newer: Change
) -> None:
    async with running(older(fleet)) as before, running(newer(fleet), "us-east") as after:
        for number in range(KEYS):
            fields: dict[str, Any] = {"request_id": f"r{number}", "pin_region": "eu-west"}
            first = await before.submit(attempt=1, **fields)
            again = await after.submit(attempt=2, **fields)
            assert (again.task_id, again.duplicate) == (first.task_id, False)


async def test_without_a_step_between_a_new_region_hides_what_was_submitted_before(
    fleet: Fleet,
) -> None:
    """Why `new: true` is there; and that the tests above can fail."""
    async with running(without(fleet)) as before, running(fleet, "us-east") as after:
        found: list[bool] = []
        for number in range(KEYS):
            fields: dict[str, Any] = {"idempotency_key": f"k{number}", "pin_region": "eu-west"}
            await before.submit(**fields)
            found.append((await after.submit(**fields)).duplicate)
        assert 0 < found.count(False) < KEYS


@pytest.fixture
def changing(fleet: Fleet) -> Fleet:
    return announced(fleet)


@pytest.fixture
def fields(changing: Fleet) -> dict[str, Any]:
    """A submit whose entry has two homes, us-east and the new region, and its task in eu-west."""
    for number in range(200):
        key = f"key-{number}"
        identity = identity_of(changing, idempotency_key=key)
        if (identity.home, identity.also) == ("us-east", X):
            return {"idempotency_key": key, "pin_region": "eu-west"}
    raise AssertionError


def mark_of(fleet: Fleet, fields: dict[str, Any]) -> LedgerMark:
    mark = identity_of(fleet, **fields).mark
    assert mark is not None
    return mark


async def reserve(
    serving: Running, fields: dict[str, Any], home: str, task_id: str, epoch: int = 1
) -> None:
    """What a router has done that vanished then."""
    mark = mark_of(serving.fleet, fields)
    region = "eu-west" if epoch == 1 else "us-east"
    assert await serving.stores[home].real.reserve(mark, task_id, region, epoch) is None


async def is_known_by_both_homes(fleet: Fleet, fields: dict[str, Any], task_id: str) -> None:
    """Routers one step before and one step after find the task, each at the home that it has."""
    for file in (without(fleet), with_x(fleet, replace(fleet.regions[X], new=False))):
        async with running(file, "us-east") as serving:
            receipt = await serving.submit(**fields)
            assert (receipt.task_id, receipt.duplicate) == (task_id, True)


async def test_both_homes_have_the_entry_before_the_task_is_stored(
    changing: Fleet, fields: dict[str, Any]
) -> None:
    async with running(changing) as serving:
        pause = serving.stores["eu-west"].pause("enqueue", before=True)
        submitting = asyncio.ensure_future(serving.submit(**fields))
        await pause.reached.wait()

        for home in ("us-east", X):
            hit = await serving.stores[home].real.reserve(
                mark_of(changing, fields), mint(changing, fields), "eu-west", 1
            )
            assert hit is not None
            assert not hit.confirmed
        pause.over.set()
        receipt = await submitting

        for home in ("us-east", X):
            mark = mark_of(changing, fields)
            hit = await serving.stores[home].real.reserve(mark, "other", "eu-west", 1)
            assert hit is not None
            assert (hit.task_id, hit.confirmed) == (receipt.task_id, True)


async def test_a_submit_that_finds_a_task_at_the_second_home_gives_the_first_one_back(
    fleet: Fleet, changing: Fleet, fields: dict[str, Any]
) -> None:
    async with running(fleet, "us-east") as later, running(changing) as serving:
        first = await later.submit(**fields)
        again = await serving.submit(**fields)

        calls = serving.stores["us-east"].calls
        assert again.task_id == first.task_id
        assert [name for name, _ in calls if name != "enqueue"] == ["reserve", "unreserve"]


async def test_a_silent_second_home_may_know_of_a_task_so_the_submit_is_refused(
    changing: Fleet, fields: dict[str, Any]
) -> None:
    async with running(changing) as serving:
        serving.stores[X].fail("reserve", GONE)

        with pytest.raises(HomeUnreachable, match=X):
            await serving.submit(**fields)
        receipt = await serving.submit(**fields)  # nothing was left at the first one

        assert not receipt.duplicate
        assert await serving.stored() == {"eu-west": 1}


@pytest.mark.parametrize("reached", [("us-east",), (X,), ("us-east", X)], ids=str)
async def test_a_submitter_that_vanished_at_either_home_is_succeeded(
    changing: Fleet, fields: dict[str, Any], short_lease: None, reached: tuple[str, ...]
) -> None:
    async with running(changing) as serving:
        task_id = mint(changing, fields)
        for home in reached:
            await reserve(serving, fields, home, task_id)

        receipt = await serving.insist(**fields)

        assert receipt.task_id == task_id
        await is_known_by_both_homes(changing, fields, task_id)
        assert await serving.stored() == {"eu-west": 1}


@pytest.mark.parametrize("ahead", ["us-east", X])
async def test_a_submitter_that_vanished_while_moving_on_between_homes_is_succeeded(
    changing: Fleet, fields: dict[str, Any], short_lease: None, ahead: str
) -> None:
    # Its task is in us-east already; one home still says eu-west, where it was refused.
    async with running(changing) as serving:
        task_id = mint(changing, fields)
        for home in ("us-east", X):
            await reserve(serving, fields, home, task_id)
        assert await serving.stores["eu-west"].real.refuse(task_id, 1) is None
        await reserve(serving, fields, ahead, task_id, epoch=2)
        moved = NewTask(task_id, "default", "email.send", Priority.NORMAL, b"", epoch=2)
        await serving.stores["us-east"].real.enqueue([moved], timeout_s=5)

        elsewhere: dict[str, Any] = {**fields, "pin_region": X}
        receipt = await serving.insist(**elsewhere)

        assert (receipt.task_id, receipt.region) == (task_id, "us-east")
        await is_known_by_both_homes(changing, fields, task_id)
        assert await serving.stored() == {"us-east": 1}


async def test_two_abandoned_submits_one_at_each_home_end_as_one_task(
    changing: Fleet, fields: dict[str, Any], short_lease: None
) -> None:
    async with running(changing) as serving:
        for home in ("us-east", X):
            await reserve(serving, fields, home, mint(changing, fields))

        receipt = await serving.insist(**fields)

        await is_known_by_both_homes(changing, fields, receipt.task_id)
        assert await serving.stored() == {"eu-west": 1}


async def test_a_home_that_learns_of_the_stored_task_late_learns_of_no_other(
    changing: Fleet, fields: dict[str, Any], short_lease: None
) -> None:
    async with running(changing) as serving:
        serving.stores["us-east"].fail("confirm", GONE)
        first = await serving.submit(**fields)

        again = await serving.insist(**fields)
        third = await serving.submit(**fields)

        assert {first.task_id, again.task_id, third.task_id} == {first.task_id}
        assert await serving.stored() == {"eu-west": 1}


async def test_a_reservation_is_given_back_at_every_home_or_counts_as_kept(
    changing: Fleet, fields: dict[str, Any]
) -> None:
    async with running(changing) as serving:
        ledgers: Any = serving.gateway
        mark, task_id = mark_of(changing, fields), mint(changing, fields)
        held = Reservation(mark, ("us-east", X), task_id, "eu-west", 1, time.monotonic())
        ledgers = ledgers._parts.submitter._ledgers
        for home in held.homes:
            await reserve(serving, fields, home, task_id)
        serving.stores[X].fail("unreserve", GONE)

        assert not await ledgers.give_back(held)
        with pytest.raises(SubmitInFlight):
            await serving.submit(**fields)
