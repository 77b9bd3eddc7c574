import asyncio
import json
from dataclasses import replace
from typing import Any

import grpc
import pytest

from router import admit, identity
from router.identity import Identity
from tests.rpc import labour
from tests.rpc.running import Running, answered, fields_of, running, spec
from tradewind import ids, wire
from tradewind.errors import (
    HomeUnreachable,
    IdempotencyKeyReused,
    InvalidTask,
    NoRegionReachable,
    OutcomeUnknown,
    RegionsFull,
    RegionSilent,
    StoreFull,
    StoreUnavailable,
    SubmitInFlight,
)
from tradewind.fleet import Dedup, Fleet, QueuePolicy
from tradewind.v1 import router_pb2, task_pb2

GONE = StoreUnavailable("x", "connection refused", sent=False)
LOST = StoreUnavailable("x", "connection lost", sent=True)


def identity_of(fleet: Fleet, **fields: Any) -> Identity:
    sent = spec(**fields)
    body = admit.check(sent, fleet, now_ms=0).body
    draft = wire.draft(sent, delay_ms=0, timeout_ms=0)
    return identity.identify(draft, body, (), fleet)


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reservation is adopted after 50 ms instead of 10 s."""
    monkeypatch.setattr("tradewind.store.intake.RESERVATION_LEASE_MS", 50)


async def elsewhere(serving: Running) -> dict[str, Any]:
    """Fields of a submit that goes to eu-west while its ledger entry lives in us-east."""
    affinity = await serving.affinity_to("eu-west")
    key = await serving.key_at("us-east", affinity_key=affinity)
    return {"affinity_key": affinity, "idempotency_key": key}


def names(serving: Running, region: str, *, but: str = "enqueue") -> list[str]:
    return [name for name, _ in serving.stores[region].calls if name != but]


async def test_a_repeat_by_request_id_is_the_same_submit_and_no_duplicate(
    serving: Running,
) -> None:
    first = await serving.submit(request_id="r", origin_region="eu-west")
    again = await serving.submit(request_id="r", origin_region="eu-west")

    assert again == replace_rule(first, again.rule)
    assert not again.duplicate
    assert await serving.stored() == {"eu-west": 1}


def replace_rule(
    receipt: router_pb2.SubmitTaskResponse, rule: str
) -> router_pb2.SubmitTaskResponse:
    copy = router_pb2.SubmitTaskResponse()
    copy.CopyFrom(receipt)
    copy.rule = rule
    return copy


async def test_an_idempotency_key_answers_with_the_first_task(serving: Running) -> None:
    first = await serving.submit(idempotency_key="k", payload=b'{"a":1,"b":2}')
    again = await serving.submit(idempotency_key="k", payload=b'{"b":2, "a":1}')

    assert (first.duplicate, again.duplicate) == (False, True)
    assert again.task_id == first.task_id
    assert again.region == first.region
    assert again.state == task_pb2.TASK_STATE_PENDING
    assert sum((await serving.stored()).values()) == 1


async def test_a_duplicate_of_a_finished_task_is_told_its_end(serving: Running) -> None:
    first = await serving.submit(idempotency_key="k")
    store = serving.stores[first.region]
    await labour.finish(store, await labour.claim(store, first.task_id))

    again = await serving.submit(idempotency_key="k")

    assert (again.task_id, again.duplicate) == (first.task_id, True)
    assert again.state == task_pb2.TASK_STATE_COMPLETED


async def test_a_duplicate_of_a_task_that_moved_is_told_where_it_is(serving: Running) -> None:
    first = await serving.submit(idempotency_key="k", pin_region="eu-west")
    await labour.move(dict(serving.stores), first.task_id, "eu-west", "us-east")

    again = await serving.submit(idempotency_key="k", pin_region="eu-west")

    assert (again.task_id, again.region, again.duplicate) == (first.task_id, "us-east", True)


async def test_another_router_in_another_region_gives_the_same_answer(fleet: Fleet) -> None:
    async with running(fleet, "eu-west") as here, running(fleet, "ap-south") as there:
        for number in range(10):
            first = await here.submit(idempotency_key=f"k{number}")
            again = await there.submit(idempotency_key=f"k{number}")
            assert again.task_id == first.task_id


@pytest.mark.parametrize("change", [{"tenant": "t"}, {"queue": "q"}, {"name": "n"}])
async def test_a_key_is_scoped_by_tenant_queue_and_name(
    serving: Running, change: dict[str, Any]
) -> None:
    first = await serving.submit(idempotency_key="k")
    other = await serving.submit(idempotency_key="k", **change)

    assert other.task_id != first.task_id
    assert not other.duplicate


async def test_a_key_under_another_fence_is_another_task(serving: Running) -> None:
    free = await serving.submit(idempotency_key="k")
    fenced = await serving.submit(idempotency_key="k", residency=["eu"])

    assert fenced.task_id != free.task_id
    assert fenced.region == "eu-west"


async def test_a_key_with_another_payload_is_refused_with_the_first_id(serving: Running) -> None:
    first = await serving.submit(idempotency_key="k", payload=b'{"a": 1}')

    with pytest.raises(IdempotencyKeyReused) as refused:
        await serving.submit(idempotency_key="k", payload=b'{"a": 2}')

    assert refused.value.first_id == first.task_id
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
    assert fields_of(refused.value) == ["idempotency_key"]


async def test_a_request_id_with_another_payload_is_refused(serving: Running) -> None:
    await serving.submit(request_id="r", payload=b'{"a": 1}', origin_region="eu-west")

    with pytest.raises(InvalidTask, match="request_id"):
        await serving.submit(request_id="r", payload=b'{"a": 2}', origin_region="eu-west")


async def test_a_repeat_of_a_keyed_submit_by_request_id_is_no_duplicate(serving: Running) -> None:
    first = await serving.submit(idempotency_key="k", request_id="r")
    repeat = await serving.submit(idempotency_key="k", request_id="r")
    another = await serving.submit(idempotency_key="k", request_id="s")

    assert (repeat.task_id, repeat.duplicate) == (first.task_id, False)
    assert (another.task_id, another.duplicate) == (first.task_id, True)


async def test_a_queue_that_dedups_by_payload_takes_twenty_spellings_once(fleet: Fleet) -> None:
    policy = QueuePolicy(dedup=Dedup(by="payload"))
    body = {"b": {"y": [1, 2], "x": "é/"}, "a": 1.0}
    spellings = {
        json.dumps(order, indent=indent, ensure_ascii=escaped, separators=separators).encode()
        for order in (body, dict(reversed(body.items())))
        for indent in (None, 1, 4)
        for escaped in (True, False)
        for separators in ((",", ":"), (" , ", " : "))
    }
    async with running(replace(fleet, default_queue=policy)) as serving:
        receipts = [await serving.submit(payload=payload) for payload in sorted(spellings)]
        reordered = await serving.submit(payload=b'{"b":{"y":[2,1],"x":"\xc3\xa9/"},"a":1}')

        assert len(spellings) >= 20
        assert len({receipt.task_id for receipt in receipts}) == 1
        assert [receipt.duplicate for receipt in receipts].count(False) == 1
        assert reordered.task_id != receipts[0].task_id


async def test_a_queue_without_dedup_takes_a_key_for_nothing(fleet: Fleet) -> None:
    policy = QueuePolicy(dedup=Dedup(by="none"))
    async with running(replace(fleet, default_queue=policy)) as serving:
        first = await serving.submit(idempotency_key="k")
        second = await serving.submit(idempotency_key="k")

        assert first.task_id != second.task_id


async def test_dedup_within_a_region_only(fleet: Fleet) -> None:
    policy = QueuePolicy(dedup=Dedup(scope="region"))
    async with running(replace(fleet, default_queue=policy)) as serving:
        here = await serving.submit(idempotency_key="k", pin_region="eu-west")
        there = await serving.submit(idempotency_key="k", pin_region="us-east")
        again = await serving.submit(idempotency_key="k", pin_region="us-east")
        away = await serving.submit(
            idempotency_key="k2", pin_region="us-east", affinity_key="far from the key's partition"
        )
        back = await serving.submit(
            idempotency_key="k2", pin_region="us-east", affinity_key="far from the key's partition"
        )

        assert here.task_id != there.task_id
        assert (again.task_id, again.duplicate) == (there.task_id, True)
        assert (back.task_id, back.duplicate) == (away.task_id, True)


async def test_a_crowd_of_identical_submits_gets_one_id(fleet: Fleet) -> None:
    async with running(fleet, "eu-west") as here, running(fleet, "us-east") as there:
        for number in range(4):
            fields: dict[str, Any] = {
                "idempotency_key": f"k{number}",
                "pin_region": "ap-south",
            }
            receipts = await asyncio.gather(
                *(router.insist(**fields) for router in (here, there) * 16)
            )
            assert len({receipt.task_id for receipt in receipts}) == 1
            assert [receipt.duplicate for receipt in receipts].count(False) == 1
        assert await here.stored() == {"ap-south": 4}


async def test_an_entry_elsewhere_is_reserved_then_confirmed(serving: Running) -> None:
    fields = await elsewhere(serving)

    first = await serving.submit(**fields)
    again = await serving.submit(**fields)

    assert first.region == "eu-west"
    assert (again.task_id, again.duplicate) == (first.task_id, True)
    assert names(serving, "us-east") == ["reserve", "confirm", "reserve"]
    assert await serving.stored() == {"eu-west": 1}


async def test_a_lost_answer_to_a_reservation_is_asked_for_again(serving: Running) -> None:
    fields = await elsewhere(serving)
    serving.stores["us-east"].fail("reserve", LOST, late=True)

    receipt = await serving.submit(**fields)

    assert not receipt.duplicate
    assert await serving.stored() == {"eu-west": 1}


async def test_without_the_home_a_duplicate_cannot_be_excluded(serving: Running) -> None:
    fields = await elsewhere(serving)
    serving.stores["us-east"].fail("reserve", GONE)

    with pytest.raises(HomeUnreachable) as refused:
        await serving.submit(**fields)

    assert refused.value.region == "us-east"
    assert refused.value.code is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    assert await serving.stored() == {}


async def test_a_full_home_says_so(serving: Running) -> None:
    fields = await elsewhere(serving)
    serving.stores["us-east"].fail("reserve", StoreFull("us-east"))

    with pytest.raises(RegionsFull, match="us-east"):
        await serving.submit(**fields)


async def test_a_region_that_refuses_is_left_with_a_tombstone_and_the_entry_moves_on(
    serving: Running,
) -> None:
    fields = await elsewhere(serving)
    serving.stores["eu-west"].fail("enqueue", StoreFull("eu-west"))

    receipt = await serving.submit(**fields)
    again = await serving.submit(**fields)

    assert receipt.region != "eu-west"
    assert names(serving, "eu-west") == ["refuse"]
    assert ("reserve", (receipt.task_id, receipt.region, 2)) in serving.stores["us-east"].calls
    assert (again.task_id, again.duplicate) == (receipt.task_id, True)
    assert (await serving.get(receipt.task_id)).region == receipt.region
    assert await serving.stored() == {receipt.region: 1}


async def test_a_region_that_cannot_even_refuse_is_left_with_a_new_id(serving: Running) -> None:
    fields = await elsewhere(serving)
    serving.stores["eu-west"].fail("enqueue", GONE)
    serving.stores["eu-west"].fail("refuse", GONE)

    receipt = await serving.submit(**fields)

    assert receipt.region != "eu-west"
    assert names(serving, "us-east").count("unreserve") == 1
    assert await serving.stored() == {receipt.region: 1}


async def test_a_submit_that_fails_everywhere_takes_its_reservation_back(
    serving: Running,
) -> None:
    key = await serving.key_at("us-east", residency=["eu", "us"])
    fields: dict[str, Any] = {"idempotency_key": key, "residency": ["eu", "us"]}
    serving.stores["eu-west"].fail("enqueue", StoreFull("eu-west"))

    with pytest.raises(RegionsFull):
        await serving.submit(**fields, pin_region="eu-west")
    receipt = await serving.submit(**fields, pin_region="us-east")

    assert not receipt.duplicate
    assert await serving.stored() == {"us-east": 1}


async def test_a_stored_task_whose_confirmation_was_lost_is_found_by_its_repeat(
    serving: Running, short_lease: None
) -> None:
    fields = await elsewhere(serving)
    serving.stores["us-east"].fail("confirm", LOST)

    first = await serving.submit(**fields)
    again = await serving.insist(**fields)
    third = await serving.submit(**fields)

    assert (again.task_id, again.duplicate) == (first.task_id, True)
    assert third.task_id == first.task_id
    assert await serving.stored() == {"eu-west": 1}


async def test_until_the_lease_of_another_ends_an_identical_submit_is_in_flight(
    serving: Running,
) -> None:
    fields = await elsewhere(serving)
    serving.stores["us-east"].fail("confirm", LOST)
    first = await serving.submit(**fields)

    with pytest.raises(SubmitInFlight) as refused:
        await serving.submit(**fields)

    assert refused.value.first_id == first.task_id
    assert refused.value.code is grpc.StatusCode.ABORTED  # type: ignore[attr-defined]
    assert 0 < refused.value.retry_after_ms <= 10_000


async def reserve_and_vanish(serving: Running, fleet: Fleet, fields: dict[str, Any]) -> str:
    """Do what a router does that is killed between its reservation and its enqueue."""
    who = identity_of(fleet, **fields)
    assert who.mark is not None
    place = identity.partition(
        wire.draft(spec(**fields), delay_ms=0, timeout_ms=0), who, fleet.partitions, 0
    )
    task_id = ids.mint(1_767_225_600_000, ids.region_code("eu-west"), place, 7)
    hit = await serving.stores[who.home].real.reserve(who.mark, task_id, "eu-west", 1)
    assert hit is None
    return task_id


async def test_a_reservation_without_a_task_is_completed_by_the_next_submit(
    serving: Running, fleet: Fleet, short_lease: None
) -> None:
    fields = await elsewhere(serving)
    task_id = await reserve_and_vanish(serving, fleet, fields)

    receipt = await serving.insist(**fields)

    assert (receipt.task_id, receipt.region) == (task_id, "eu-west")
    assert (await serving.get(task_id)).state == task_pb2.TASK_STATE_PENDING
    assert await serving.stored() == {"eu-west": 1}


async def test_a_submitter_that_vanished_between_leaving_and_moving_on_is_succeeded(
    serving: Running, fleet: Fleet, short_lease: None
) -> None:
    fields = await elsewhere(serving)
    task_id = await reserve_and_vanish(serving, fleet, fields)
    assert await serving.stores["eu-west"].real.refuse(task_id, 1) is None

    receipt = await serving.insist(**fields)
    again = await serving.submit(**fields)

    assert receipt.task_id == again.task_id == task_id
    assert again.region == receipt.region
    assert await serving.stored() == {receipt.region: 1}


async def test_adopting_does_not_take_a_task_out_of_its_pin(
    serving: Running, fleet: Fleet, short_lease: None
) -> None:
    fields = await elsewhere(serving)
    task_id = await reserve_and_vanish(serving, fleet, fields)

    receipt = await serving.insist(**fields, pin_region="ap-south")

    assert (receipt.task_id, receipt.region) == (task_id, "ap-south")
    assert await serving.stored() == {"ap-south": 1}


async def test_a_reservation_without_a_task_does_not_block_another_payload(
    serving: Running, fleet: Fleet, short_lease: None
) -> None:
    fields = await elsewhere(serving)
    task_id = await reserve_and_vanish(serving, fleet, fields)

    receipt = await serving.insist(**fields, payload=b'{"other": 1}')

    assert receipt.task_id != task_id
    assert not receipt.duplicate
    assert await serving.stored() == {"eu-west": 1}


async def test_a_reservation_at_a_silent_region_is_not_given_up(
    serving: Running, fleet: Fleet, short_lease: None
) -> None:
    fields = await elsewhere(serving)
    task_id = await reserve_and_vanish(serving, fleet, fields)
    serving.stores["eu-west"].fail("enqueue", GONE)
    serving.stores["eu-west"].fail("refuse", GONE)

    with pytest.raises(RegionSilent) as refused:
        await serving.insist(but=RegionSilent, **fields)
    receipt = await serving.insist(**fields)

    assert refused.value.regions == ("eu-west",)
    assert receipt.task_id == task_id


async def test_an_unknown_outcome_keeps_its_reservation(
    serving: Running, short_lease: None
) -> None:
    fields = await elsewhere(serving)
    serving.stores["eu-west"].fail("enqueue", *[LOST] * 99, late=True)

    with pytest.raises(OutcomeUnknown) as unknown:
        await serving.submit(timeout_s=0.3, **fields)
    serving.stores["eu-west"].faults.clear()
    receipt = await serving.insist(**fields)

    assert receipt.task_id == unknown.value.task_id
    assert await serving.stored() == {"eu-west": 1}


async def test_a_submit_that_holds_a_reservation_goes_on_without_its_caller(
    serving: Running,
) -> None:
    fields = await elsewhere(serving)
    pause = serving.stores["us-east"].pause("reserve")
    request = router_pb2.SubmitTaskRequest(spec=spec(**fields))
    call = serving.router.SubmitTask(request)
    sending = asyncio.ensure_future(answered(call))
    await pause.reached.wait()
    call.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    pause.over.set()

    receipt = await serving.insist(**fields)

    assert receipt.duplicate
    assert await serving.stored() == {"eu-west": 1}


async def test_a_request_id_lives_in_the_callers_region_whichever_router_it_uses(
    fleet: Fleet,
) -> None:
    async with running(fleet, "eu-west") as here, running(fleet, "us-east") as there:
        fields: dict[str, Any] = {
            "request_id": "r",
            "origin_region": "ap-south",
            "pin_region": "us-east",
        }
        first = await here.submit(**fields)
        again = await there.submit(**fields)

        assert again.task_id == first.task_id
        assert names(here, "ap-south") == ["reserve", "confirm"]


async def test_no_region_but_a_down_one_is_unavailable(serving: Running) -> None:
    serving.stores["eu-west"].fail("enqueue", GONE)

    with pytest.raises(NoRegionReachable) as refused:
        await serving.submit(residency=["eu"])

    assert refused.value.code is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    assert await serving.stored() == {}
