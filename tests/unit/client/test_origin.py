"""The region a client says it is in."""

import asyncio

from tests.unit.client.scripted import (
    Health,
    ScriptedRouter,
)
from tradewind import Client


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
