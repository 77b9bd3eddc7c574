from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from google.rpc import code_pb2

from tests.rpc.running import Running, answered, running, spec
from tests.unit.policy.worlds import busy, view
from tradewind import metrics
from tradewind.errors import (
    NoRegionPermitted,
)
from tradewind.fleet import Fleet, Match, Rule
from tradewind.v1 import router_pb2, task_pb2
from tradewind.view import RegionView


async def test_explaining_stores_nothing_and_names_every_region(serving: Running) -> None:
    decision = await serving.explain(residency=["eu"], idempotency_key="k")

    assert decision.region == "eu-west"
    assert decision.ledger_home == "eu-west"
    excluded = {one.region: one.excluded_by for one in decision.candidates if not one.eligible}
    assert excluded == {"us-east": "outside the fence", "ap-south": "outside the fence"}
    assert sum(one.share for one in decision.candidates) == pytest.approx(1.0)
    assert await serving.stored() == {}


def freeze(
    serving: Running,
    views: list[RegionView] | dict[str | None, list[RegionView]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let the router see this and nothing else: then only chance differs from task to task.

    `views` may be by the origin of the task.
    """
    census, now_ms = serving.gateway.census, serving.gateway.census.now_ms()

    def seen(origin: str | None = None) -> list[RegionView]:
        return views[origin] if isinstance(views, dict) else views

    monkeypatch.setattr(census, "views", seen)
    monkeypatch.setattr(census, "now_ms", lambda: now_ms)


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
    serving: Running, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await serving.staff()
    # What an earlier submit was sent to by force must not count as where its origin's tasks go.
    await serving.submit(pin_region="us-east")

    origins = {None, fields.get("origin_region") or serving.gateway.region}
    freeze(serving, {each: serving.gateway.census.views(each) for each in origins}, monkeypatch)
    decision = await serving.explain(**fields)
    receipt = await serving.submit(**fields)

    assert (receipt.region, receipt.rule) == (decision.region, decision.rule)
    if receipt.partition != decision.partition:  # without a key it is drawn for each task
        assert not {"request_id", "idempotency_key", "affinity_key"}.intersection(fields)


async def test_explain_and_submit_draw_alike_where_tasks_spill(
    serving: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [busy("eu-west", 0.3, 1.0), view("us-east", 50.0), view("ap-south", 60.0)]
    freeze(serving, views, monkeypatch)
    went: Counter[str] = Counter()
    for number in range(24):  # fewer guests than limits.max_spill_in allows
        named: dict[str, Any] = {"request_id": f"r-{number}", "origin_region": "eu-west"}
        told = await serving.explain(**named)
        receipt = await serving.submit(**named)
        assert (receipt.region, receipt.rule) == (told.region, told.rule)
        assert told.step == told.rule
        assert (told.home, told.spills) == ("eu-west", True)
        went[receipt.region] += 1
    assert set(went) == {"eu-west", "us-east", "ap-south"}  # so chance had a part in it

    ids = [f"batch-{number}" for number in range(12)]
    specs = [spec(request_id=each, origin_region="eu-west") for each in ids]
    told_of = [
        (await serving.explain(request_id=each, origin_region="eu-west")).region for each in ids
    ]
    batch = router_pb2.SubmitTasksRequest(specs=specs)
    answer = await answered(serving.router.SubmitTasks(batch))
    assert [each.accepted.region for each in answer.results] == told_of


async def test_every_reason_every_part_of_the_score_and_the_age_are_told(
    serving: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [
        busy("eu-west", 0.5, 40.0, ok=0.8, health="DEGRADED", age_s=0.5),
        view("us-east", 90.0, health="DOWN", state="DRAINING", full=True),
        view("ap-south", 200.0, health="RECOVERING", ramp=0.5),
    ]
    freeze(serving, views, monkeypatch)
    told = await serving.explain(residency=["eu", "apac"])

    eu, us, ap = told.candidates
    assert list(us.reasons) == ["outside the fence", "draining", "down", "full"]
    assert (us.excluded_by, us.eligible) == ("outside the fence", False)
    assert not eu.reasons
    assert (eu.parts.rtt, eu.parts.wait) == pytest.approx((0.04, 0.5))
    assert (eu.parts.success_rate, eu.parts.health_factor) == (0.8, 1.5)
    assert eu.score == pytest.approx((0.04 + 0.5) / 0.8 * 1.5)
    assert (eu.age.ToMilliseconds(), eu.health) == (500, task_pb2.HEALTH_DEGRADED)
    assert (ap.parts.ramp, ap.score) == pytest.approx((0.5, 0.4))
    assert not ap.trial


async def test_a_region_on_trial_is_told_as_such_and_one_of_which_nothing_is_known_has_no_age(
    serving: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [
        view("eu-west", 1.0, health="DOWN", trial=True),
        view("us-east", 50.0),
        RegionView("ap-south", 90.0, health="UNKNOWN"),
    ]
    freeze(serving, views, monkeypatch)
    told = await serving.explain(residency=["eu", "us"])

    eu, us, ap = told.candidates
    assert (told.region, told.step, eu.trial, list(eu.reasons)) == (
        "eu-west",
        "trial",
        True,
        ["half-open"],
    )
    assert us.HasField("age")
    assert not ap.HasField("age")
    assert (told.home, told.spills) == ("", False)


async def test_behind_a_rule_the_step_that_took_the_region_is_told(fleet: Fleet) -> None:
    rule = Rule("acme", Match(tenants=("acme",)), residency=("eu",))
    async with running(replace(fleet, rules=(rule,))) as serving:
        await serving.staff()
        told = await serving.explain(tenant="acme")
    assert (told.rule, told.step, told.home, told.spills) == ("acme", "home", "eu-west", False)


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
    with pytest.raises(NoRegionPermitted) as refused:
        await serving.submit(residency=["eu"], pin_region="us-east")
    assert decision.refusal.code == code_pb2.FAILED_PRECONDITION
    assert decision.refusal.message == str(refused.value)
    assert list(decision.fence) == ["eu"]
    assert (list(decision.fence_by.task_residency), decision.fence_by.pin_region) == (
        ["eu"],
        "us-east",
    )


async def test_while_the_origin_is_full_the_next_nearest_is_a_detour_also_in_the_count(
    serving: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [view("eu-west", 1.0, full=True), view("us-east", 50.0), view("ap-south", 60.0)]
    freeze(serving, views, monkeypatch)
    labels = {"region": "us-east", "rule": "detour"}
    before = metrics.REGISTRY.get_sample_value("tradewind_routing_decisions_total", labels) or 0
    told = await serving.explain(origin_region="eu-west")
    receipt = await serving.submit(origin_region="eu-west")

    assert (told.region, told.step, told.home, told.bypassed) == (
        "us-east",
        "detour",
        "us-east",
        "eu-west",
    )
    assert (receipt.region, receipt.rule) == ("us-east", "detour")
    after = metrics.REGISTRY.get_sample_value("tradewind_routing_decisions_total", labels)
    assert after == before + 1
