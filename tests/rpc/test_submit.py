import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import grpc
import pytest

from tests.conftest import fleet_on
from tests.redis_keys import connected, flush
from tests.rpc.running import Running, answered, fields_of, running, spec
from tradewind import codec, ids, metrics
from tradewind.errors import (
    BatchTooLarge,
    InvalidTask,
    NoRegionPermitted,
    NoRegionReachable,
    OutcomeUnknown,
    PayloadTooLarge,
    RegionsFull,
    StoreContractBroken,
    StoreError,
    StoreFull,
    StoreMoving,
    StoreUnavailable,
)
from tradewind.fleet import Fleet, Health, Match, Rule
from tradewind.local.scratch import RedisProcess
from tradewind.task import Record
from tradewind.v1 import router_pb2, task_pb2


async def test_a_submitted_task_can_be_read(serving: Running) -> None:
    receipt = await serving.submit(payload=b'{"to": "a"}', labels={"a": "b"})
    task = await serving.get(receipt.task_id)

    assert receipt.region == "eu-west"
    assert receipt.rule == "home"
    assert receipt.state == task_pb2.TASK_STATE_PENDING
    assert receipt.partition == ids.parse(receipt.task_id).partition
    assert not receipt.duplicate
    assert task.spec.payload == b'{"to": "a"}'
    assert task.spec.queue == "default"
    assert task.region == "eu-west"
    assert [hop.region for hop in task.hops] == ["eu-west"]
    assert len(task.fingerprint) == 64


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", True),
        ("00-0AF7-b7ad6b7169203331-01", False),
        ("user@example.org", False),
    ],
)
async def test_a_trace_context_is_kept_in_the_task(serving: Running, sent: str, kept: bool) -> None:
    request = router_pb2.SubmitTaskRequest(spec=spec())
    receipt = await serving.router.SubmitTask(request, metadata=(("traceparent", sent),))

    record = await serving.stores[receipt.region].read(receipt.task_id)

    assert isinstance(record, Record)
    assert codec.unpack(record.packed).traceparent == (sent if kept else "")


async def test_a_delayed_task_is_scheduled(serving: Running) -> None:
    receipt = await serving.submit(delay=timedelta(hours=1))
    task = await serving.get(receipt.task_id)

    assert receipt.state == task_pb2.TASK_STATE_SCHEDULED
    waits_s = task.next_attempt_at.seconds - task.created_at.seconds
    assert 3_599 <= waits_s <= 3_601


async def test_equal_affinity_keys_share_region_and_partition(serving: Running) -> None:
    await serving.staff()

    receipts = [await serving.submit(affinity_key="user-42") for _ in range(4)]

    assert len({(receipt.region, receipt.partition) for receipt in receipts}) == 1


async def test_a_fenced_task_stays_in_its_group(serving: Running) -> None:
    receipt = await serving.submit(residency=["apac"])

    assert receipt.region == "ap-south"
    assert list((await serving.get(receipt.task_id)).fence) == ["apac"]


async def test_a_pinned_task_goes_where_it_is_pinned(serving: Running) -> None:
    receipt = await serving.submit(pin_region="us-east")

    assert (receipt.region, receipt.rule) == ("us-east", "pin")


async def test_the_origin_decides_what_is_near(serving: Running) -> None:
    receipt = await serving.submit(origin_region="ap-south")

    assert receipt.region == "ap-south"


async def test_a_pin_outside_the_fence_leaves_no_region(serving: Running) -> None:
    with pytest.raises(NoRegionPermitted) as refused:
        await serving.submit(residency=["eu"], pin_region="us-east")

    assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION  # type: ignore[attr-defined]


async def test_every_violation_is_named(serving: Running) -> None:
    with pytest.raises(InvalidTask) as refused:
        await serving.submit(name="a b", residency=["EU"], payload=b"[")

    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
    assert set(fields_of(refused.value)) == {"name", "residency", "payload"}
    assert await serving.stored() == {}


async def test_a_request_without_a_spec_is_refused(serving: Running) -> None:
    with pytest.raises(InvalidTask):
        await answered(serving.router.SubmitTask(router_pb2.SubmitTaskRequest()))


async def test_a_string_that_is_not_utf8_is_the_callers_fault(serving: Running) -> None:
    channel: Any = serving.channel
    raw = channel.unary_unary("/tradewind.v1.RouterService/SubmitTask")

    with pytest.raises(InvalidTask) as refused:
        await answered(raw(b"\x0a\x04\x12\x02\xff\xfe"))

    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]


async def test_a_payload_over_the_limit_is_exhausted_without_retry(serving: Running) -> None:
    with pytest.raises(PayloadTooLarge) as refused:
        await serving.submit(payload=b"x" * 3_000_000, content_type="a/b")

    assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED  # type: ignore[attr-defined]
    assert refused.value.size_bytes == 3_000_000
    assert await serving.stored() == {}


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
    flush(redis_servers[1].port)
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


async def test_a_batch_answers_each_task_in_order(serving: Running) -> None:
    specs = [spec(), spec(name=""), spec(residency=["us"])]

    answer = await serving.router.SubmitTasks(router_pb2.SubmitTasksRequest(specs=specs))

    first, second, third = answer.results
    assert first.accepted.region == "eu-west"
    assert second.error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert third.accepted.region == "us-east"


@pytest.mark.parametrize("count", [0, 1_001])
async def test_a_batch_of_a_wrong_size_is_refused(serving: Running, count: int) -> None:
    request = router_pb2.SubmitTasksRequest(specs=[spec()] * count)

    with pytest.raises(InvalidTask):
        await answered(serving.router.SubmitTasks(request))


async def test_a_batch_over_4_mib_is_refused(serving: Running) -> None:
    large = spec(payload=b"x" * 1_000_000, content_type="a/b")

    with pytest.raises(BatchTooLarge):
        await answered(serving.router.SubmitTasks(router_pb2.SubmitTasksRequest(specs=[large] * 5)))


async def test_a_thousand_tasks_in_one_batch_are_stored(serving: Running) -> None:
    request = router_pb2.SubmitTasksRequest(specs=[spec(pin_region="eu-west")] * 1_000)

    answer = await serving.router.SubmitTasks(request)

    assert len({result.accepted.task_id for result in answer.results}) == 1_000
    assert await serving.stored() == {"eu-west": 1_000}


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


async def test_other_regions_being_down_does_not_stop_a_router(fleet: Fleet) -> None:
    regions = dict(fleet.regions)
    nobody = replace(regions["us-east"].redis, nodes=("127.0.0.1:1",))
    regions["us-east"] = replace(regions["us-east"], redis=nobody)

    async with running(replace(fleet, regions=regions)) as serving:
        assert (await serving.submit()).region == "eu-west"
        assert serving.gateway.ready() == (True, "ready; silent regions: us-east")


async def test_submits_that_come_together_share_calls(serving: Running) -> None:
    await asyncio.gather(*(serving.submit(pin_region="eu-west") for _ in range(50)))

    calls = [call for call in serving.stores["eu-west"].calls if call[0] == "enqueue"]
    assert len(calls) < 50
    assert await serving.stored() == {"eu-west": 50}
