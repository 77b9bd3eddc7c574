import asyncio
from dataclasses import replace
from typing import Any

import grpc
import pytest

from tests.conftest import fleet_on
from tests.redis_keys import connected
from tests.rpc.running import Running, answered, running, spec
from tradewind.errors import (
    NoRegionReachable,
    OutcomeUnknown,
    RegionsFull,
    StoreContractBroken,
    StoreError,
    StoreFull,
    StoreMoving,
    StoreUnavailable,
    TradewindError,
)
from tradewind.fleet import Health
from tradewind.local.scratch import RedisProcess
from tradewind.metrics import REGISTRY, ROUTING_REFUSALS
from tradewind.v1 import router_pb2

FAILED = StoreUnavailable("eu-west", "foreign data", sent=True, failed=True)
BROKEN = StoreContractBroken("foreign data")


@pytest.mark.parametrize("error", [FAILED, BROKEN])
async def test_a_region_whose_scripts_fail_is_left_behind_a_tombstone(
    serving: Running, error: StoreError
) -> None:
    serving.stores["eu-west"].fail("enqueue", error)

    receipt = await serving.submit()

    assert receipt.region != "eu-west"
    assert [name for name, _ in serving.stores["eu-west"].calls] == ["enqueue", "refuse"]
    assert serving.gateway.census.view("eu-west").ok < 1
    assert await serving.stored() == {receipt.region: 1}


@pytest.mark.parametrize("error", [FAILED, BROKEN])
async def test_a_task_that_a_failed_script_had_stored_is_accepted_where_it_is(
    serving: Running, error: StoreError
) -> None:
    serving.stores["eu-west"].fail("enqueue", error, late=True)

    receipt = await serving.submit()

    assert receipt.region == "eu-west"
    assert await serving.stored() == {"eu-west": 1}


@pytest.mark.parametrize("error", [FAILED, BROKEN])
async def test_a_broken_region_that_cannot_even_refuse_leaves_the_outcome_open_and_is_named(
    serving: Running, error: StoreError
) -> None:
    serving.stores["eu-west"].fail("enqueue", error)
    serving.stores["eu-west"].fail("refuse", error)

    with pytest.raises(OutcomeUnknown, match="eu-west") as refused:
        await serving.submit()

    assert refused.value.code is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    assert refused.value.region == "eu-west"


async def test_a_broken_region_that_is_the_only_one_permitted_is_unavailable(
    serving: Running,
) -> None:
    serving.stores["eu-west"].fail("enqueue", BROKEN)

    with pytest.raises(NoRegionReachable) as refused:
        await serving.submit(residency=["eu"])

    assert refused.value.code is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    assert await serving.stored() == {}


@pytest.mark.parametrize("denied", ["hset", "rpush", "hincrby", "evalsha"])
async def test_a_region_that_denies_us_a_command_is_soon_left_alone_and_nothing_is_internal(
    redis_servers: list[RedisProcess], own_redis: RedisProcess, denied: str
) -> None:
    fleet = fleet_on([own_redis, redis_servers[1]])
    async with running(replace(fleet, health=Health(interval_ms=100))) as serving:
        connected(own_redis.port).execute_command("ACL", "SETUSER", "default", f"-{denied}")
        answers = [
            await asyncio.gather(serving.submit(), return_exceptions=True) for _ in range(20)
        ]

        codes = {getattr(answer, "code", None) for (answer,) in answers}
        assert codes <= {None, grpc.StatusCode.UNAVAILABLE}
        assert [isinstance(answer, Exception) for (answer,) in answers].count(True) <= 2 * 5


async def test_a_full_region_is_left_for_another(serving: Running) -> None:
    serving.stores["eu-west"].fail("enqueue", StoreFull("eu-west"))

    receipt = await serving.submit()

    assert receipt.region != "eu-west"
    assert await serving.stored() == {receipt.region: 1}


async def test_a_region_that_was_certainly_not_reached_is_left_for_another(
    serving: Running,
) -> None:
    serving.stores["eu-west"].fail("enqueue", StoreUnavailable("eu-west", "refused", sent=False))

    assert (await serving.submit()).region != "eu-west"


async def test_a_fenced_task_is_refused_rather_than_sent_outside(serving: Running) -> None:
    serving.stores["eu-west"].fail("enqueue", StoreFull("eu-west"))

    with pytest.raises(RegionsFull) as refused:
        await serving.submit(residency=["eu"])

    assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED  # type: ignore[attr-defined]
    assert await serving.stored() == {}


async def test_a_task_without_a_key_takes_another_partition_if_its_own_moves(
    serving: Running,
) -> None:
    store = serving.stores["eu-west"]
    store.fail("enqueue", StoreMoving("eu-west", 1))

    assert (await serving.submit()).region == "eu-west"
    (_, first), (_, second) = [call for call in store.calls if call[0] == "enqueue"]
    assert first != second


async def test_a_lost_answer_is_asked_for_again_under_the_same_id(serving: Running) -> None:
    lost = StoreUnavailable("eu-west", "connection lost", sent=True)
    serving.stores["eu-west"].fail("enqueue", lost, lost, late=True)

    receipt = await serving.submit()

    calls = [ids_ for name, ids_ in serving.stores["eu-west"].calls if name == "enqueue"]
    assert calls == [[receipt.task_id]] * 3
    assert await serving.stored() == {"eu-west": 1}


async def test_an_outcome_that_stays_unknown_is_called_so(serving: Running) -> None:
    lost = StoreUnavailable("eu-west", "connection lost", sent=True)
    serving.stores["eu-west"].fail("enqueue", *[lost] * 99, late=True)

    with pytest.raises(OutcomeUnknown) as unknown:
        await serving.submit(timeout_s=1, request_id="r", origin_region="eu-west")

    assert unknown.value.code is grpc.StatusCode.DEADLINE_EXCEEDED  # type: ignore[attr-defined]
    serving.stores["eu-west"].faults.clear()
    again = await serving.insist(request_id="r", origin_region="eu-west")
    assert again.task_id == unknown.value.task_id
    assert not again.duplicate
    assert await serving.stored() == {"eu-west": 1}


async def test_doubt_about_a_region_that_fills_up_meanwhile_is_settled(serving: Running) -> None:
    store = serving.stores["eu-west"]
    store.fail("enqueue", StoreUnavailable("eu-west", "connection lost", sent=True), late=True)
    store.fail("enqueue", StoreFull("eu-west"))

    receipt = await serving.submit()

    assert receipt.region == "eu-west"  # the first attempt had stored it
    assert await serving.stored() == {"eu-west": 1}


async def test_a_first_attempt_that_did_not_store_lets_the_task_go_elsewhere(
    serving: Running,
) -> None:
    store = serving.stores["eu-west"]
    store.fail("enqueue", StoreUnavailable("eu-west", "connection lost", sent=True))
    store.fail("enqueue", StoreFull("eu-west"))

    receipt = await serving.submit()

    assert receipt.region != "eu-west"
    assert await serving.stored() == {receipt.region: 1}


async def test_a_bug_is_internal_and_shows_nothing(
    serving: Running, caplog: pytest.LogCaptureFixture
) -> None:
    serving.stores["eu-west"].fail("enqueue", ZeroDivisionError("secret"))  # type: ignore[arg-type]

    with pytest.raises(Exception, match="the router's log has the cause") as refused:
        await serving.submit()

    assert refused.value.code is grpc.StatusCode.INTERNAL  # type: ignore[attr-defined]
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.__dict__["error"] == "ZeroDivisionError"
    assert "secret" not in str(record.__dict__)


async def test_no_region_but_a_down_one_is_unavailable(serving: Running) -> None:
    serving.stores["eu-west"].fail("enqueue", StoreUnavailable("eu-west", "refused", sent=False))

    with pytest.raises(NoRegionReachable) as refused:
        await serving.submit(residency=["eu"])

    assert refused.value.code is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    assert await serving.stored() == {}


def refusals() -> dict[str, float]:
    """How many decisions named no region so far, by why."""
    name = "tradewind_routing_decisions_total"
    return {
        why: REGISTRY.get_sample_value(name, {"region": "none", "rule": why}) or 0.0
        for why in ROUTING_REFUSALS
    }


def counted_since(before: dict[str, float]) -> dict[str, float]:
    return {why: count - before[why] for why, count in refusals().items()}


async def test_a_refusal_counts_each_time_that_a_caller_is_told(serving: Running) -> None:
    """So the rate is above 0 for as long as anybody is turned away."""
    before = refusals()
    for attempt in (1, 2, 3):
        with pytest.raises(TradewindError):
            await serving.submit(
                request_id="r", attempt=attempt, residency=["eu"], pin_region="us-east"
            )
    assert counted_since(before)["no-region-permitted"] == 3


# What is submitted, what its only region answers, and what the decision counts as.
NOWHERE: dict[str, tuple[dict[str, Any], StoreError | None, str]] = {
    "no region may have": (
        {"residency": ["eu"], "pin_region": "us-east"},
        None,
        "no-region-permitted",
    ),
    "no region can take": ({"residency": ["eu"]}, BROKEN, "no-region-reachable"),
    "no region has room for": ({"residency": ["eu"]}, StoreFull("eu-west"), "regions-full"),
    "is wrong in itself": ({"name": ""}, None, ""),
}


@pytest.mark.parametrize("together", [False, True], ids=["alone", "with others"])
@pytest.mark.parametrize(("fields", "error", "counts_as"), NOWHERE.values(), ids=NOWHERE)
async def test_among_decisions_a_refusal_counts_by_why_there_is_no_region_for_what(
    serving: Running,
    fields: dict[str, Any],
    error: StoreError | None,
    counts_as: str,
    together: bool,
) -> None:
    if error is not None:
        serving.stores["eu-west"].fail("enqueue", error)
    before = refusals()

    if together:
        request = router_pb2.SubmitTasksRequest(specs=[spec(**fields)])
        (result,) = (await answered(serving.router.SubmitTasks(request))).results
        assert result.HasField("error")
    else:
        with pytest.raises(TradewindError):
            await serving.submit(**fields)

    counted = counted_since(before)
    assert counted == dict.fromkeys(ROUTING_REFUSALS, 0) | ({counts_as: 1} if counts_as else {})
