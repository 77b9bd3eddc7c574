"""The region a client says it is in, and the time it counts from."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.unit.client.scripted import (
    Health,
    ScriptedRouter,
)
from tradewind import Client
from tradewind.client.calls import Router
from tradewind.client.origin import Origin
from tradewind.clock import ManualClock
from tradewind.errors import InvalidTask, NoAnswer, RouterUnreachable
from tradewind.limits import HOUR_MS, MINUTE_MS, SECOND_MS

TOLD_MS = 1_800_000_000_000


def origins(router: ScriptedRouter) -> set[str]:
    sent = [spec for specs in router.messages for spec in specs]
    return {spec.origin_region for spec in (*sent, *router.singles, *router.explained)}


async def test_a_client_without_a_region_adopts_its_routers_for_submits_and_explains(
    target: str, router: ScriptedRouter, health: Health
) -> None:
    async with Client(target) as client:
        await asyncio.gather(*(client.submit(f"t{n}") for n in range(20)))
        health.region = "us-east"
        await client.explain("email.send")
        await client.submit("email.send")
    assert health.asked == 1
    assert origins(router) == {"ap-south"}


async def test_a_named_region_is_kept_and_nobody_is_asked(
    client: Client, router: ScriptedRouter, health: Health
) -> None:
    await client.submit("email.send")
    await client.submit("email.send", origin_region="us-east")
    await client.explain("email.send")
    assert origins(router) == {"eu-west", "us-east"}
    assert health.asked == 0


async def test_a_router_that_does_not_say_its_region_is_asked_once(
    target: str, router: ScriptedRouter, health: Health
) -> None:
    health.region = ""
    async with Client(target) as client:
        await client.submit("email.send")
        await client.submit("email.send")
    assert (health.asked, origins(router)) == (1, {""})


async def test_a_router_that_was_not_reached_does_not_hold_up_a_submit_and_is_asked_again(
    target: str, router: ScriptedRouter, health: Health
) -> None:
    health.answers = False
    async with Client(target) as client:
        await client.submit("email.send")
        assert origins(router) == {""}
        health.answers = True
        await client.submit("email.send")
    assert origins(router) == {"", "ap-south"}


async def test_a_request_id_of_the_callers_own_goes_without_an_adopted_region(
    target: str, router: ScriptedRouter, health: Health
) -> None:
    # Its home depends on the origin, and a repeat may come through another region's router.
    async with Client(target) as client:
        await client.submit("email.send", request_id="mine")
    assert (health.asked, origins(router)) == (0, {""})
    assert router.repeats == [("", "mine")]  # which attempt it is, only the caller knows


async def test_an_explain_asks_about_what_a_submit_would_send(
    client: Client, router: ScriptedRouter
) -> None:
    await client.submit("email.send", {"to": "a"}, priority="high")
    await client.explain("email.send", {"to": "a"}, priority="high")
    [[sent]], [explained] = router.messages, router.explained
    assert len(sent.request_id) == len(explained.request_id) > 0
    explained.request_id = sent.request_id
    assert sent == explained


class HostClock(ManualClock):
    """A host's clocks; the wall clock can be set alone."""

    set_by_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.set_by_ms


@pytest.fixture
def clock() -> HostClock:
    return HostClock()


@pytest.fixture
async def origin(target: str, health: Health, clock: HostClock) -> AsyncIterator[Origin]:
    health.now_ms = str(TOLD_MS)
    router = Router(target, None)
    origin = Origin(router, clock)
    yield origin
    await origin.close()
    await router.close()


async def test_time_goes_on_from_what_the_router_told(
    origin: Origin, health: Health, clock: HostClock
) -> None:
    assert await origin.now_ms(5) == TOLD_MS
    clock.advance(MINUTE_MS)
    assert await origin.now_ms(5) == TOLD_MS + MINUTE_MS
    assert await origin.region(5) == "ap-south"
    assert health.asked == 1


@pytest.mark.parametrize(("passed_ms", "set_by_ms"), [(MINUTE_MS + 1, 0), (0, HOUR_MS)])
async def test_an_old_answer_or_a_clock_that_was_set_asks_anew_and_keeps_the_region(
    origin: Origin, health: Health, clock: HostClock, passed_ms: int, set_by_ms: int
) -> None:
    await origin.now_ms(5)
    clock.advance(passed_ms)
    clock.set_by_ms = set_by_ms
    health.now_ms, health.region = str(TOLD_MS + 7), "us-east"

    assert await origin.now_ms(5) == TOLD_MS + 7
    assert (await origin.region(5), health.asked) == ("ap-south", 2)


async def test_asks_that_meet_are_one(origin: Origin, health: Health) -> None:
    await asyncio.gather(*(origin.now_ms(5) for _ in range(20)), origin.region(5))
    assert health.asked == 1


@pytest.mark.parametrize("told", ["", "soon", "-1", "9" * 400])
async def test_the_host_stands_in_for_a_router_that_tells_no_time(
    origin: Origin, health: Health, clock: HostClock, told: str
) -> None:
    health.now_ms = told
    assert await origin.now_ms(5) == clock.now_ms()


async def test_a_router_that_is_not_reached_is_asked_until_the_deadline(
    origin: Origin, health: Health
) -> None:
    health.answers = False
    with pytest.raises((RouterUnreachable, NoAnswer)):  # the last attempt may have no time left
        await origin.now_ms(1.0)
    assert health.asked > 1


async def test_an_expiry_is_counted_from_the_routers_time(
    client: Client, router: ScriptedRouter, health: Health
) -> None:
    health.now_ms = str(TOLD_MS)
    await client.submit("email.send", expires=60)
    await client.explain("email.send", expires=60)
    [[sent]], [explained] = router.messages, router.explained
    for spec in (sent, explained):
        assert 0 <= spec.expires_at.ToMilliseconds() - TOLD_MS - MINUTE_MS < 30 * SECOND_MS


async def test_a_wrong_expiry_is_told_before_anybody_is_asked(
    client: Client, health: Health
) -> None:
    health.answers = False
    with pytest.raises(InvalidTask, match="expires"):
        await client.submit("email.send", expires="soon")  # type: ignore[arg-type]
    assert health.asked == 0
