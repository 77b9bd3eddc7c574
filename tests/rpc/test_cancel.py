import asyncio
from dataclasses import replace
from typing import Any

import grpc
import pytest

from tests.rpc import labour
from tests.rpc.running import Running, answered, running
from tradewind import ids
from tradewind.errors import (
    InvalidTask,
    RegionSilent,
    StoreUnavailable,
    UnknownTask,
)
from tradewind.fleet import Dedup, Fleet, QueuePolicy
from tradewind.task import Bury, Cancel, Failure, Finish
from tradewind.v1 import router_pb2, task_pb2

State = task_pb2.TaskState
GONE = StoreUnavailable("x", "connection refused", sent=False)


async def cancel(serving: Running, task_id: str, timeout_s: float = 20) -> Any:
    request = router_pb2.CancelTaskRequest(task_id=task_id)
    return await answered(serving.router.CancelTask(request, timeout=timeout_s))


async def requested(serving: Running, task_id: str) -> None:
    call = serving.router.WatchTask(router_pb2.WatchTaskRequest(task_id=task_id))
    async for seen in call:
        if seen.task.cancel_requested:
            return


def is_cancelled(answer: Any) -> bool:
    state = answer.task.state
    return answer.cancelled and not answer.requested and state == State.TASK_STATE_CANCELLED


async def pending(serving: Running, task_id: str) -> None:
    assert (await serving.get(task_id)).state == State.TASK_STATE_PENDING


async def delayed(serving: Running, task_id: str) -> None:
    assert (await serving.get(task_id)).state == State.TASK_STATE_SCHEDULED


async def failed(serving: Running, task_id: str) -> None:
    store = serving.stores["eu-west"]
    await labour.retry(store, await labour.claim(store, task_id))


async def dead(serving: Running, task_id: str) -> None:
    await labour.bury(serving.stores["eu-west"], task_id)


async def moved(serving: Running, task_id: str) -> None:
    await labour.move(dict(serving.stores), task_id, "eu-west", "us-east")


async def under_way_and_imported(serving: Running, task_id: str) -> None:
    await labour.bury(serving.stores["eu-west"], task_id, may_move=True)
    exported = await labour.begin_export(serving.stores["eu-west"], task_id, "us-east")
    await labour.import_task(serving.stores["us-east"], exported)


async def under_way_and_not_seen(serving: Running, task_id: str) -> None:
    await labour.bury(serving.stores["eu-west"], task_id, may_move=True)
    await labour.begin_export(serving.stores["eu-west"], task_id, "us-east")


PLACES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "waits": (pending, {}, "eu-west"),
    "is delayed": (delayed, {"delay": {"seconds": 60}}, "eu-west"),
    "waits for another attempt": (failed, {}, "eu-west"),
    "is dead": (dead, {}, "eu-west"),
    "has moved": (moved, {}, "us-east"),
    "is moving and has arrived": (under_way_and_imported, {}, "us-east"),
    "is moving and has not arrived": (under_way_and_not_seen, {}, "eu-west"),
}


@pytest.mark.parametrize(("bring", "fields", "region"), PLACES.values(), ids=PLACES)
async def test_a_task_is_cancelled_at_once_where_it(
    serving: Running, bring: Any, fields: dict[str, Any], region: str
) -> None:
    task_id = (await serving.submit(**fields)).task_id
    await bring(serving, task_id)

    for _ in range(2):  # a second cancel gives the same answer
        answer = await cancel(serving, task_id)
        assert is_cancelled(answer)
        assert (answer.task.region, answer.task.settled) == (region, True)

    found = [await store.real.read(task_id) for store in serving.stores.values()]
    assert not [one for one in found if getattr(one, "state", "") == "PENDING"]


async def test_a_move_that_a_cancel_has_ended_can_no_longer_arrive(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    source, target = serving.stores["eu-west"], serving.stores["us-east"]
    await labour.bury(source, task_id, may_move=True)
    exported = await labour.begin_export(source, task_id, "us-east")
    assert is_cancelled(await cancel(serving, task_id))

    late = await target.real.import_task(exported, hops=b"", timeout_s=5)

    assert late == "refused"
    assert (await serving.get(task_id)).state == State.TASK_STATE_CANCELLED


async def test_a_task_that_moves_away_under_a_cancel_is_cancelled_where_it_went(
    serving: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = (await serving.submit()).task_id
    store = serving.stores["eu-west"].real
    cancel_there = store.cancel

    async def after_a_move(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.undo()
        await moved(serving, task_id)
        return await cancel_there(*args, **kwargs)

    monkeypatch.setattr(store, "cancel", after_a_move)
    answer = await cancel(serving, task_id)

    assert is_cancelled(answer)
    assert answer.task.region == "us-east"


async def test_a_task_that_arrives_under_a_cancel_is_cancelled_there(
    serving: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = (await serving.submit()).task_id
    source, target = serving.stores["eu-west"], serving.stores["us-east"]
    await labour.bury(source, task_id, may_move=True)
    exported = await labour.begin_export(source, task_id, "us-east")
    refuse_there = target.real.refuse_import

    async def after_the_import(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.undo()
        await labour.import_task(target, exported)
        return await refuse_there(*args, **kwargs)

    monkeypatch.setattr(target.real, "refuse_import", after_the_import)
    answer = await cancel(serving, task_id)

    assert is_cancelled(answer)
    assert answer.task.region == "us-east"
    assert await source.real.ack_export(task_id, exported.epoch, "us-east", keep_ms=60_000)
    assert is_cancelled(await cancel(serving, task_id))


async def test_a_move_that_a_cancel_began_to_end_is_ended_by_its_courier(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    source, target = serving.stores["eu-west"], serving.stores["us-east"]
    await labour.bury(source, task_id, may_move=True)
    exported = await labour.begin_export(source, task_id, "us-east")
    source.fail("abort_export", GONE)
    with pytest.raises(RegionSilent):
        await cancel(serving, task_id)

    assert await target.real.import_task(exported, hops=b"", timeout_s=5) == "refused"
    back = await source.real.abort_export(
        task_id, exported.epoch, "us-east", reason="refused", retry_after_ms=60_000
    )

    assert back == "DEAD_LETTER"
    assert is_cancelled(await cancel(serving, task_id))


async def test_a_task_on_its_way_to_a_silent_region_is_not_cancelled(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    await under_way_and_not_seen(serving, task_id)
    serving.stores["us-east"].fail("refuse_import", GONE)

    with pytest.raises(RegionSilent) as silent:
        await cancel(serving, task_id)

    assert silent.value.regions == ("us-east",)
    assert silent.value.code is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    assert (await serving.get(task_id)).state == State.TASK_STATE_MOVING
    assert is_cancelled(await cancel(serving, task_id))


async def test_a_silent_owner_is_named_and_nothing_is_claimed(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    serving.stores["eu-west"].fail("cancel", GONE)

    with pytest.raises(RegionSilent) as silent:
        await cancel(serving, task_id)

    assert silent.value.regions == ("eu-west",)
    await pending(serving, task_id)


async def test_what_nobody_knows_cannot_be_cancelled(serving: Running) -> None:
    stranger = ids.mint(1, ids.region_code("eu-west"), 1, 1)
    with pytest.raises(UnknownTask):
        await cancel(serving, stranger)
    with pytest.raises(InvalidTask, match="task_id"):
        await cancel(serving, "x")


async def test_a_running_task_is_cancelled_once_its_holder_confirms(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    store = serving.stores["eu-west"]
    held = await labour.claim(store, task_id)
    cancelling = asyncio.create_task(cancel(serving, task_id))
    await requested(serving, task_id)

    await store.real.confirm_cancel([Cancel(held, 60_000)])

    assert is_cancelled(await cancelling)
    assert is_cancelled(await cancel(serving, task_id))


async def test_a_holder_that_does_not_answer_is_asked_for_no_longer_than_a_moment(
    serving: Running,
) -> None:
    task_id = (await serving.submit()).task_id
    await labour.claim(serving.stores["eu-west"], task_id)

    for _ in range(2):
        answer = await cancel(serving, task_id, timeout_s=1)
        assert (answer.cancelled, answer.requested) == (False, True)
        assert answer.task.state == State.TASK_STATE_PROCESSING
        assert answer.task.cancel_requested


async def test_a_completion_that_comes_first_wins(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    store = serving.stores["eu-west"]
    held = await labour.claim(store, task_id)
    cancelling = asyncio.create_task(cancel(serving, task_id))
    await requested(serving, task_id)

    await store.real.finish([Finish(held, b"1", "application/json", 60_000)])

    for answer in (await cancelling, await cancel(serving, task_id)):
        assert (answer.cancelled, answer.requested) == (False, False)
        assert (answer.task.state, answer.task.result) == (State.TASK_STATE_COMPLETED, b"1")


async def test_an_attempt_that_fails_after_the_request_is_not_repeated(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    store = serving.stores["eu-west"]
    held = await labour.claim(store, task_id)
    cancelling = asyncio.create_task(cancel(serving, task_id))
    await requested(serving, task_id)

    failure = Failure("error", "boom")
    await store.real.bury([Bury(held, "exhausted", failure, 60_000, may_move=True)])

    assert is_cancelled(await cancelling)


@pytest.mark.parametrize("home", ["eu-west", "us-east"])
async def test_the_key_of_a_cancelled_task_is_free_again(serving: Running, home: str) -> None:
    await serving.staff()
    key = await serving.key_at(home, pin_region="eu-west")
    fields: dict[str, Any] = {"idempotency_key": key, "pin_region": "eu-west"}
    first = await serving.insist(**fields)

    assert is_cancelled(await cancel(serving, first.task_id))
    second = await serving.insist(**fields)
    assert is_cancelled(await cancel(serving, first.task_id))  # does not take the second one's key
    third = await serving.insist(**fields)

    assert (second.task_id != first.task_id, second.duplicate) == (True, False)
    assert (third.task_id, third.duplicate) == (second.task_id, True)


async def test_a_key_of_one_region_is_free_again(fleet: Fleet) -> None:
    policy = QueuePolicy(dedup=Dedup(scope="region"))
    async with running(replace(fleet, default_queue=policy)) as serving:
        fields: dict[str, Any] = {"idempotency_key": "k", "pin_region": "us-east"}
        first = await serving.submit(**fields)

        assert is_cancelled(await cancel(serving, first.task_id))

        second = await serving.submit(**fields)
        assert second.task_id != first.task_id


async def test_a_payload_that_was_cancelled_may_come_again(fleet: Fleet) -> None:
    policy = QueuePolicy(dedup=Dedup(by="payload"))
    async with running(replace(fleet, default_queue=policy)) as serving:
        first = await serving.insist(payload=b'{"a": 1.0, "b": 2}')

        assert is_cancelled(await cancel(serving, first.task_id))

        again = await serving.insist(payload=b'{"b":2,"a":1}')
        assert (again.task_id != first.task_id, again.duplicate) == (True, False)


async def test_a_late_repeat_of_a_cancelled_submit_is_no_second_task(serving: Running) -> None:
    first = await serving.insist(request_id="r", origin_region="us-east")
    assert is_cancelled(await cancel(serving, first.task_id))

    again = await serving.insist(request_id="r", origin_region="us-east")

    assert again.task_id == first.task_id


async def test_a_silent_home_of_the_key_does_not_hide_that_the_task_is_cancelled(
    serving: Running,
) -> None:
    await serving.staff()
    key = await serving.key_at("us-east", pin_region="eu-west")
    first = await serving.insist(idempotency_key=key, pin_region="eu-west")
    serving.stores["us-east"].fail("forget", GONE)

    assert is_cancelled(await cancel(serving, first.task_id))
    assert (await serving.get(first.task_id)).state == State.TASK_STATE_CANCELLED

    second = await serving.insist(idempotency_key=key, pin_region="eu-west")
    assert second.task_id != first.task_id


async def test_a_caller_that_leaves_does_not_keep_the_key_from_its_next_user(
    serving: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await serving.submit(idempotency_key="k", pin_region="eu-west")
    store, cancelled, left = serving.stores["eu-west"].real, asyncio.Event(), asyncio.Event()
    cancel_there = store.cancel

    async def slowly(*args: Any, **kwargs: Any) -> Any:
        answer = await cancel_there(*args, **kwargs)
        cancelled.set()
        await left.wait()
        return answer

    monkeypatch.setattr(store, "cancel", slowly)
    call = serving.router.CancelTask(router_pb2.CancelTaskRequest(task_id=first.task_id))
    asking = asyncio.ensure_future(answered(call))
    await cancelled.wait()
    call.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    left.set()

    fields: dict[str, Any] = {"idempotency_key": "k", "pin_region": "eu-west"}
    while (await serving.insist(**fields)).duplicate:  # noqa: ASYNC110 - as its submitter would
        await asyncio.sleep(0.01)


async def test_a_router_that_stops_does_not_wait_for_a_holder(fleet: Fleet) -> None:
    async with running(fleet) as serving:
        task_id = (await serving.submit(idempotency_key="k", pin_region="eu-west")).task_id
        await labour.claim(serving.stores["eu-west"], task_id)
        assert (await cancel(serving, task_id, timeout_s=1)).requested
        async with asyncio.timeout(8):
            await serving.server.stop(asyncio.Event())
            await serving.gateway.drain()


async def test_the_key_of_a_task_that_stops_later_is_free_then(serving: Running) -> None:
    first = await serving.submit(idempotency_key="k", pin_region="eu-west")
    store = serving.stores["eu-west"]
    held = await labour.claim(store, first.task_id)
    assert (await cancel(serving, first.task_id, timeout_s=1)).requested

    await store.real.confirm_cancel([Cancel(held, 60_000)])

    fields: dict[str, Any] = {"idempotency_key": "k", "pin_region": "eu-west"}
    while (await serving.insist(**fields)).duplicate:  # noqa: ASYNC110 - as its submitter would
        await asyncio.sleep(0.01)


async def test_a_watch_ends_with_the_cancel(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    seen: list[int] = []

    async for answer in serving.router.WatchTask(router_pb2.WatchTaskRequest(task_id=task_id)):
        if not seen:
            await cancel(serving, task_id)
        seen.append(answer.task.state)

    assert seen == [State.TASK_STATE_PENDING, State.TASK_STATE_CANCELLED]
