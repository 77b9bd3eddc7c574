"""Region states and pauses: several routers over real regions, of which some do not answer."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest

from tests.redis_keys import connected
from tests.rpc.running import Running, answered, fields_of, running
from tests.scripts.world import client_of
from tradewind import metrics
from tradewind.control import Control, Order, Pause, Stamp
from tradewind.errors import (
    ControlConflict,
    ControlUnavailable,
    InvalidTask,
    LastRegion,
    NoRegionReachable,
    StoreUnavailable,
    TradewindError,
)
from tradewind.fleet import Fleet, Health, Rule
from tradewind.store.keys import partition_keys
from tradewind.v1 import admin_pb2, task_pb2

EU, US, AP = "eu-west", "us-east", "ap-south"
QUICK = Health(interval_ms=100)
STATES = {
    "ACTIVE": task_pb2.REGION_STATE_ACTIVE,
    "CORDONED": task_pb2.REGION_STATE_CORDONED,
    "DRAINING": task_pb2.REGION_STATE_DRAINING,
}


async def set_state(serving: Running, region: str, state: str, **more: Any) -> Any:
    request = admin_pb2.SetRegionStateRequest(region=region, state=STATES[state], **more)
    return (await answered(serving.admin.SetRegionState(request, timeout=20))).region


async def pause(serving: Running, queue: str) -> int:
    request = admin_pb2.PauseQueueRequest(queue=queue)
    return (await answered(serving.admin.PauseQueue(request, timeout=20))).epoch


async def resume(serving: Running, queue: str) -> int:
    request = admin_pb2.ResumeQueueRequest(queue=queue)
    return (await answered(serving.admin.ResumeQueue(request, timeout=20))).epoch


async def states(serving: Running) -> dict[str, str]:
    answer = await serving.admin.ListRegions(admin_pb2.ListRegionsRequest())
    by_value = {value: name for name, value in STATES.items()}
    return {region.name: by_value[region.state] for region in answer.regions}


async def paused(serving: Running) -> set[str]:
    answer = await serving.admin.ListQueues(admin_pb2.ListQueuesRequest())
    return {one.queue for one in answer.queues if one.paused}


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(15):
        while not await holds():  # noqa: ASYNC110 - the routers look now and then, too
            await asyncio.sleep(0.02)


async def held(serving: Running) -> Mapping[str, Control]:
    """What each region holds, asked past the router's own knowledge."""
    return {n: await s.real.control(timeout_s=5) for n, s in serving.stores.items()}


def cut_off(serving: Running, *regions: str, method: str = "control_promise") -> None:
    """The next many votes of these regions are lost."""
    for name in regions:
        for _ in range(50):
            serving.stores[name].fail(method, StoreUnavailable(name, "gone", sent=False))


def mend(serving: Running) -> None:
    for store in serving.stores.values():
        store.faults.clear()


def help_at_once(serving: Running) -> None:
    serving.gateway.orders._later = lambda: 0.0  # pyright: ignore[reportPrivateUsage]


@asynccontextmanager
async def two_routers(fleet: Fleet) -> AsyncGenerator[tuple[Running, Running]]:
    async with running(fleet, EU) as one, running(fleet, US) as other:
        yield one, other


@pytest.fixture
def quick(fleet: Fleet) -> Fleet:
    return replace(fleet, health=QUICK)


async def test_a_drain_is_seen_by_every_router_and_sends_work_elsewhere(quick: Fleet) -> None:
    async with two_routers(quick) as (one, other):
        shown = await set_state(one, EU, "DRAINING", reason="disk")
        assert (shown.name, shown.epoch) == (EU, 1)
        assert await states(one) == {EU: "DRAINING", US: "ACTIVE", AP: "ACTIVE"}
        assert (await one.submit()).region != EU, "the own router knows at once"
        bounds: list[dict[str, Any]] = [{"pin_region": EU}, {"residency": ["eu"]}]
        for bound in bounds:
            with pytest.raises(NoRegionReachable):
                await one.submit(**bound)

        async def is_seen() -> bool:
            return (await states(other))[EU] == "DRAINING"

        await until(is_seen)
        reasons = {c.region: c.excluded_by for c in (await other.explain()).candidates}
        assert reasons[EU] == "draining"
        order = (await held(one))[EU].regions[EU]
        assert (order.state, order.reason, order.forced) == ("DRAINING", "disk", False)
        assert order.by.startswith("ipv4:127.0.0.1:")
        assert order.at_ms > 1_700_000_000_000
        order_gauge = metrics.REGION_ORDER.labels(EU, "draining")
        assert order_gauge._value.get() == 1  # pyright: ignore[reportPrivateUsage]


async def test_states_and_pauses_outlive_every_router(quick: Fleet) -> None:
    async with running(quick) as serving:
        await set_state(serving, US, "CORDONED")
        epoch = await pause(serving, "mail")
    async with running(quick, AP) as serving:
        assert (await states(serving))[US] == "CORDONED", "before the first task is taken"
        assert await paused(serving) == {"mail"}
        assert await resume(serving, "mail") > epoch
        assert await paused(serving) == set()


async def test_pausing_twice_is_no_error_and_shows_a_queue_without_tasks(
    serving: Running,
) -> None:
    first = await pause(serving, "mail")
    assert await pause(serving, "mail") == first, "nothing has changed"
    await serving.submit(queue="default")
    answer = await serving.admin.ListQueues(admin_pb2.ListQueuesRequest())
    found = {(q.region, q.queue): (q.paused, q.pending) for q in answer.queues}
    assert found[AP, "mail"] == (True, 0)
    assert (await serving.submit(queue="mail")).task_id, "it still takes tasks"
    assert await resume(serving, "never-paused") == first


REFUSED: dict[str, tuple[str, Any, str]] = {
    "an unknown region": (
        "SetRegionState",
        admin_pb2.SetRegionStateRequest(region="mars", state=STATES["DRAINING"]),
        "region",
    ),
    "no region": (
        "SetRegionState",
        admin_pb2.SetRegionStateRequest(state=STATES["DRAINING"]),
        "region",
    ),
    "no state": ("SetRegionState", admin_pb2.SetRegionStateRequest(region=EU), "state"),
    "a reason as long as a book": (
        "SetRegionState",
        admin_pb2.SetRegionStateRequest(region=EU, state=STATES["ACTIVE"], reason="x" * 1_001),
        "reason",
    ),
    "a queue without a name": ("PauseQueue", admin_pb2.PauseQueueRequest(), "queue"),
    "a name that no queue has": ("ResumeQueue", admin_pb2.ResumeQueueRequest(queue="ü"), "queue"),
}


@pytest.mark.parametrize(("method", "request_", "field"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_meant_is_refused_by_field(
    serving: Running, method: str, request_: Any, field: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        await answered(getattr(serving.admin, method)(request_))
    assert fields_of(refused.value) == [field]


async def test_the_last_region_of_a_fence_stays_on_unless_forced(quick: Fleet) -> None:
    fenced = replace(quick, rules=(Rule("pii", residency=("eu",)),))
    async with running(fenced) as serving:
        with pytest.raises(LastRegion, match="rule pii") as refused:
            await set_state(serving, EU, "DRAINING")
        assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION  # type: ignore[attr-defined]
        assert (await states(serving))[EU] == "ACTIVE"
        shown = await set_state(serving, EU, "DRAINING", force=True)
        assert shown.epoch == 1, "what was refused has used none"
        assert (await held(serving))[EU].regions[EU].forced
        again = await set_state(serving, EU, "DRAINING", force=True)
        assert again.epoch == 1


async def test_an_order_that_another_router_has_ended_meanwhile_is_given_again(
    quick: Fleet,
) -> None:
    """This router may not have heard of that yet: OK is not to be answered by old news."""
    async with two_routers(quick) as (one, other):
        await pause(one, "mail")
        await until(lambda: is_paused(other, "mail"))
        for _ in range(3):
            await resume(other, "mail")
            assert await pause(one, "mail")
            assert (await held(one))[EU].is_paused("mail")


async def is_paused(serving: Running, queue: str) -> bool:
    return queue in await paused(serving)


async def test_without_a_majority_nothing_is_in_force_anywhere(quick: Fleet) -> None:
    async with two_routers(quick) as (one, other):
        cut_off(one, US, AP)
        with pytest.raises(ControlUnavailable) as refused:
            await set_state(one, EU, "DRAINING")
        assert refused.value.missing == (AP, US)
        assert refused.value.code is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
        assert {c.stamp.epoch for c in (await held(one)).values()} == {0}
        assert set((await states(other)).values()) == {"ACTIVE"}


async def test_a_region_that_is_meant_and_does_not_answer_is_named(serving: Running) -> None:
    cut_off(serving, EU)
    cut_off(serving, EU, method="control_accept")
    with pytest.raises(ControlUnavailable) as refused:
        await set_state(serving, EU, "DRAINING")
    assert refused.value.missing == (EU,)
    await set_state(serving, US, "CORDONED")


async def test_a_region_that_was_away_during_a_change_holds_it_soon_after(quick: Fleet) -> None:
    async with two_routers(quick) as (one, other):
        help_at_once(one)
        for method in ("control_promise", "control_accept"):
            cut_off(one, AP, method=method)
            cut_off(other, AP, method=method)
        await set_state(one, EU, "DRAINING")
        assert (await held(one))[AP].stamp.epoch == 0
        mend(one)

        async def is_repaired() -> bool:
            return (await held(one))[AP].state(EU) == "DRAINING"

        await until(is_repaired)


async def test_a_redis_that_lost_the_document_has_it_again(serving: Running) -> None:
    help_at_once(serving)
    await set_state(serving, EU, "CORDONED")
    for name in (EU, US):  # a majority
        port = int(serving.fleet.regions[name].redis.nodes[0].rpartition(":")[2])
        connected(port).delete(partition_keys(serving.fleet.partitions)[0].control)

    async def is_back() -> bool:
        return all(c.state(EU) == "CORDONED" for c in (await held(serving)).values())

    await until(is_back)
    assert (await states(serving))[EU] == "CORDONED"


async def test_a_change_that_was_given_up_half_way_is_carried_on(serving: Running) -> None:
    version = Control(Stamp(5, "gone"), pauses={"mail": Pause("ann", 1)})
    await serving.stores[AP].real.control_accept(version, timeout_s=5)
    help_at_once(serving)

    async def is_in_force() -> bool:
        return await paused(serving) == {"mail"}

    await until(is_in_force)
    assert {c.stamp.epoch for c in (await held(serving)).values()} == {6}


async def test_a_promise_that_was_given_up_bars_no_repair_for_ever(serving: Running) -> None:
    await set_state(serving, EU, "CORDONED")
    port = int(serving.fleet.regions[AP].redis.nodes[0].rpartition(":")[2])
    connected(port).delete(partition_keys(serving.fleet.partitions)[0].control)
    await serving.stores[AP].real.control_promise(Stamp(9, "gone"), timeout_s=5)
    help_at_once(serving)

    async def is_repaired() -> bool:
        return (await held(serving))[AP].state(EU) == "CORDONED"

    await until(is_repaired)


async def test_operators_at_once_undo_nothing_of_each_other(quick: Fleet) -> None:
    async with two_routers(quick) as (one, other):
        routers = (one, other, one, other, one, other)

        async def one_of_many(number: int, router: Running) -> str:
            while True:
                try:
                    await pause(router, f"q{number}")
                except ControlConflict:
                    continue
                return f"q{number}"

        names = await asyncio.gather(*(one_of_many(*each) for each in enumerate(routers)))
        assert set(names) <= (await held(one))[EU].pauses.keys()

        async def are_seen() -> bool:
            return await paused(one) == await paused(other) == set(names)

        await until(are_seen)


async def test_a_change_gives_way_to_others_and_is_aborted_if_they_always_come_first(
    serving: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    for store in serving.stores.values():
        await store.real.control_promise(Stamp(40, "another"), timeout_s=5)
    monkeypatch.setattr("router.vote._ROUNDS", 1)
    with pytest.raises(ControlConflict) as refused:
        await pause(serving, "mail")
    assert refused.value.code is grpc.StatusCode.ABORTED  # type: ignore[attr-defined]
    monkeypatch.undo()
    assert await pause(serving, "mail") == 41, "another round, above what came first"


async def test_with_force_one_region_is_enough_and_every_router_acts_on_it(quick: Fleet) -> None:
    async with two_routers(quick) as (one, other):
        for method in ("control_promise", "control_accept"):
            cut_off(one, US, AP, method=method)
            cut_off(other, US, AP, EU, method=method)  # nobody helps
        await set_state(one, US, "DRAINING", force=True)
        assert (await states(one))[US] == "DRAINING"
        assert [c.forced for c in (await held(one)).values()] == [True, False, False]

        async def is_seen() -> bool:
            return (await states(other))[US] == "DRAINING"

        await until(is_seen)


async def test_an_answer_that_is_lost_makes_no_second_change(serving: Running) -> None:
    """The acceptance reaches a majority; its answers do not. The operator asks once more."""
    await set_state(serving, US, "CORDONED", reason="first")
    before = (await held(serving))[EU]
    lost = StoreUnavailable(EU, "lost", sent=True)
    for name in (EU, US, AP):
        serving.stores[name].fail("control_accept", lost, late=True)
    with pytest.raises(TradewindError):
        await pause(serving, "mail")
    await pause(serving, "mail")
    now = (await held(serving))[EU]
    assert now.regions == before.regions == {US: Order(**_order(before))}
    assert now.recent[: len(before.recent)] == before.recent
    assert now.is_paused("mail")
    assert client_of(serving.stores[EU].real).holding.control == now


def _order(control: Control) -> dict[str, Any]:
    order = control.regions[US]
    return {name: getattr(order, name) for name in Order.__slots__}
