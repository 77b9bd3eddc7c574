from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.rpc.running import Running, running
from tradewind import metrics
from tradewind.errors import (
    NoRegionPermitted,
)
from tradewind.fleet import Fleet, Match, Rule


async def test_explaining_stores_nothing_and_names_every_region(serving: Running) -> None:
    decision = await serving.explain(residency=["eu"], idempotency_key="k")

    assert decision.region == "eu-west"
    assert decision.ledger_home == "eu-west"
    excluded = {one.region: one.excluded_by for one in decision.candidates if not one.eligible}
    assert excluded == {"us-east": "outside the fence", "ap-south": "outside the fence"}
    assert sum(one.share for one in decision.candidates) == pytest.approx(1.0)
    assert await serving.stored() == {}


ALIKE: dict[str, dict[str, Any]] = {
    "nothing but a name": {},
    "an origin": {"origin_region": "ap-south"},
    "a request_id": {"request_id": "r"},
    "a request_id and an origin": {"request_id": "r", "origin_region": "us-east"},
    "an idempotency key": {"idempotency_key": "k"},
    "an idempotency key and an origin": {"idempotency_key": "k", "origin_region": "ap-south"},
    "an affinity key": {"affinity_key": "user-42", "request_id": "r"},
    "a fence": {"residency": ["us"], "request_id": "r"},
    "a pin": {"pin_region": "ap-south", "request_id": "r"},
    "a delay": {"delay": timedelta(hours=1)},
}


@pytest.mark.parametrize("fields", ALIKE.values(), ids=ALIKE)
async def test_explaining_tells_what_a_submit_of_the_same_spec_does(
    serving: Running, fields: dict[str, Any]
) -> None:
    await serving.staff()
    # What an earlier submit was sent to by force must not count as where its origin's tasks go.
    await serving.submit(pin_region="us-east")

    decision = await serving.explain(**fields)
    receipt = await serving.submit(**fields)

    assert (receipt.region, receipt.rule) == (decision.region, decision.rule)
    if receipt.partition != decision.partition:  # without a key it is drawn for each task
        assert not {"request_id", "idempotency_key", "affinity_key"}.intersection(fields)


async def test_a_router_is_the_origin_of_a_task_without_one(serving: Running) -> None:
    await serving.staff()
    told = [
        await serving.explain(request_id="r", origin_region=origin) for origin in ("", "eu-west")
    ]
    assert [(each.region, each.rule) for each in told] == [("eu-west", "home")] * 2


async def test_a_task_that_nobody_runs_is_stored_and_says_so(serving: Running) -> None:
    await serving.staff(handlers=("other",))

    decision = await serving.explain()
    receipt = await serving.submit()

    assert (decision.rule, receipt.rule) == ("unserved", "unserved")
    assert {each.excluded_by for each in decision.candidates} == {"no worker for handler"}
    assert all(each.eligible for each in decision.candidates)
    labels = {"region": receipt.region, "rule": "unserved"}
    assert metrics.REGISTRY.get_sample_value("tradewind_routing_decisions_total", labels)


async def test_fences_that_exclude_each_other_are_named_with_their_authors(fleet: Fleet) -> None:
    rule = Rule("acme-germany", Match(tenants=("acme",)), residency=("eu",))
    named = "[eu] by rule acme-germany and [us] by the task leave no residency group"
    async with running(replace(fleet, rules=(rule,))) as serving:
        fields: dict[str, Any] = {"tenant": "acme", "residency": ["us"]}
        decision = await serving.explain(**fields)
        with pytest.raises(NoRegionPermitted) as refused:
            await serving.submit(**fields)

    assert str(refused.value).startswith(named)
    assert (decision.region, decision.rule) == ("", "acme-germany")
    assert {each.excluded_by for each in decision.candidates} == {f"outside the fence: {named}"}
    assert all(each.HasField("rtt") for each in decision.candidates)


async def test_explaining_a_task_without_a_region_is_an_answer(serving: Running) -> None:
    decision = await serving.explain(residency=["eu"], pin_region="us-east")

    assert decision.region == ""
    assert len(decision.candidates) == 3
