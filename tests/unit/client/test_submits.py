"""What a client sends, and when it says it again."""

import asyncio

import grpc
import grpc.aio
import pytest

from tests.unit.client.scripted import (
    Answer,
    ScriptedRouter,
    accepted,
)
from tradewind import Client, Receipt, TaskRequest
from tradewind.client.repeats import DRAWS
from tradewind.errors import (
    HomeUnreachable,
    InvalidTask,
    NoAnswer,
    RegionsFull,
    RouterUnreachable,
    SubmitInFlight,
    TradewindError,
)
from tradewind.local.freeports import free_ports
from tradewind.request_ids import group_of
from tradewind.v1 import task_pb2
from tradewind.v1.router_pb2_grpc import add_RouterServiceServicer_to_server


def nothing_kept(elsewhere: bool) -> TradewindError:
    error = HomeUnreachable("eu-west")
    error.nothing_kept, error.elsewhere = True, elsewhere
    return error


async def test_a_lone_submit_is_one_message_and_its_receipt_is_read(
    client: Client, router: ScriptedRouter
) -> None:
    receipt = await client.submit("email.send", {"to": "a@example.org"}, queue="mail")

    [[spec]] = router.messages
    assert spec.payload == b'{"to":"a@example.org"}'
    assert (spec.name, spec.queue, spec.origin_region) == ("email.send", "mail", "eu-west")
    assert receipt.task_id == f"id-{spec.request_id}"
    assert receipt.region == "eu-west"


async def test_submits_that_meet_share_messages_and_each_gets_its_own_outcome(
    client: Client, router: ScriptedRouter
) -> None:
    def every_tenth_is_refused(spec: task_pb2.TaskSpec) -> Answer:
        if spec.name.endswith("0"):
            return InvalidTask.field("name", f"{spec.name} is odd")
        return accepted(spec)

    router.answer = every_tenth_is_refused
    requests = [TaskRequest(f"t{n}") for n in range(600)]
    outcomes = await client.submit_many(requests)

    assert len(router.messages) <= 12  # 600 single calls would be 600
    assert sum(len(specs) for specs in router.messages) == 600
    for request, outcome in zip(requests, outcomes, strict=True):
        if request.name.endswith("0"):
            assert isinstance(outcome, InvalidTask)
            assert request.name in str(outcome)
        else:
            assert isinstance(outcome, Receipt)


@pytest.mark.parametrize(("count", "sizes"), [(40, [40]), (101, [51, 50])])
async def test_many_that_meet_are_spread_over_two_messages_so_that_one_can_be_answered_meanwhile(
    client: Client, router: ScriptedRouter, count: int, sizes: list[int]
) -> None:
    await asyncio.gather(*(client.submit(f"t{n}") for n in range(count)))

    assert [len(specs) for specs in router.messages] == sizes


async def test_submits_that_come_while_messages_are_unanswered_wait_together(
    client: Client, router: ScriptedRouter
) -> None:
    router.gate.clear()
    waiting: list[asyncio.Task[Receipt]] = []
    for n in range(3):
        waiting.append(asyncio.create_task(client.submit(f"first{n}")))
        await asyncio.sleep(0)
    more = [asyncio.create_task(client.submit(f"more{n}")) for n in range(50)]
    router.gate.set()
    await asyncio.gather(*waiting, *more)

    assert sum(len(specs) for specs in router.messages) == 53
    assert len(router.messages) < 20


async def test_a_repeat_keeps_the_request_id_and_states_its_attempt(
    client: Client, router: ScriptedRouter
) -> None:
    refusals: list[TradewindError] = [
        SubmitInFlight("first", retry_after_ms=1),
        HomeUnreachable("eu-west"),
    ]
    router.answer = lambda spec: refusals.pop(0) if refusals else accepted(spec)

    receipt = await client.submit("email.send")

    [[spec]] = router.messages
    assert router.repeats == [("2", spec.request_id), ("3", spec.request_id)]
    assert receipt.task_id == f"id-{spec.request_id}"


async def test_a_submit_that_left_nothing_is_the_first_attempt_of_another_request_id(
    client: Client, router: ScriptedRouter
) -> None:
    refusals = [*map(nothing_kept, [True, True, False]), HomeUnreachable("eu-west")]
    router.answer = lambda spec: refusals.pop(0) if refusals else accepted(spec)

    receipt = await client.submit("email.send", {"to": "a@example.org"})

    specs = [spec for message in router.messages for spec in message]
    ids = [spec.request_id for spec in specs]
    assert len(set(ids)) == len(ids) == 4
    assert router.repeats == [("2", ids[-1])]
    assert receipt.task_id == f"id-{ids[-1]}"
    for spec in specs:
        spec.request_id = ""
        assert spec == specs[0]


async def test_only_those_of_a_message_that_left_nothing_take_other_ids_and_go_together_again(
    client: Client, router: ScriptedRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine: ids of a group are minted within so long.
    monkeypatch.setattr("tradewind.client.request_ids._SPAN_S", 60.0)
    refused = {f"t{n}" for n in range(0, 60, 3)}

    def some_are_refused_once(spec: task_pb2.TaskSpec) -> Answer:
        if spec.name in refused:
            refused.remove(spec.name)
            return nothing_kept(elsewhere=True)
        return accepted(spec)

    router.answer = some_are_refused_once
    receipts = await asyncio.gather(*(client.submit(f"t{n}") for n in range(60)))

    first, again = router.messages
    assert {spec.name for spec in again} == {f"t{n}" for n in range(0, 60, 3)}
    assert len({group_of(spec.request_id) for spec in again}) == 1
    last = {spec.name: spec.request_id for spec in [*first, *again]}
    assert [receipt.task_id for receipt in receipts] == [f"id-{last[f't{n}']}" for n in range(60)]


async def test_a_request_id_of_the_callers_own_is_kept_whatever_the_router_says(
    client: Client, router: ScriptedRouter
) -> None:
    refusals = [nothing_kept(elsewhere=True)]
    router.answer = lambda spec: refusals.pop(0) if refusals else accepted(spec)

    await client.submit("email.send", request_id="mine")

    assert router.messages == []
    assert router.repeats == [("", "mine"), ("", "mine")]


async def test_other_request_ids_are_tried_at_once_only_a_few_times(
    client: Client, router: ScriptedRouter
) -> None:
    router.answer = lambda _: nothing_kept(elsewhere=True)

    with pytest.raises(HomeUnreachable):
        await client.submit("email.send", deadline=0.9)  # the router asks for pauses of 1 s

    assert len(router.messages) == 1 + DRAWS
    assert router.repeats == []


async def test_a_lost_stream_is_repeated_as_the_second_attempt(
    client: Client, router: ScriptedRouter
) -> None:
    router.break_streams = 1

    receipts = await asyncio.gather(*(client.submit(f"t{n}") for n in range(20)))

    sent = {spec.request_id for specs in router.messages for spec in specs}
    assert {receipt.task_id for receipt in receipts} == {f"id-{each}" for each in sent}
    assert {attempt for attempt, _ in router.repeats} == {"2"}


async def test_a_refusal_that_asking_again_cannot_help_is_raised_at_once(
    client: Client, router: ScriptedRouter
) -> None:
    router.answer = lambda _: RegionsFull("every region is full")

    with pytest.raises(RegionsFull):
        await client.submit("email.send")
    assert router.repeats == []


async def test_a_submit_that_is_cancelled_before_it_was_written_is_not_sent(
    client: Client, router: ScriptedRouter
) -> None:
    task = asyncio.create_task(client.submit("never"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await client.submit("after")

    assert [spec.name for specs in router.messages for spec in specs] == ["after"]


async def test_no_router_at_the_address_is_an_error_that_says_what_to_do() -> None:
    [port] = free_ports(1)
    async with Client(f"127.0.0.1:{port}", deadline=0.2) as client:
        with pytest.raises(RouterUnreachable, match="tradewind up"):
            await client.submit("email.send")
        with pytest.raises(RouterUnreachable):
            await client.connect()


async def test_a_router_that_never_answers_leaves_the_request_id_in_the_error(
    client: Client, router: ScriptedRouter
) -> None:
    router.gate.clear()
    with pytest.raises(NoAnswer, match="request_id=mine"):
        await client.submit("email.send", request_id="mine", deadline=0.2)
    router.gate.set()


async def test_the_server_may_restart_between_two_submits(router: ScriptedRouter) -> None:
    async def serve(port: int) -> tuple[grpc.aio.Server, int]:
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        add_RouterServiceServicer_to_server(router, server)
        port = server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        return server, port

    server, port = await serve(0)
    async with Client(f"127.0.0.1:{port}") as client:
        await client.submit("before")
        await server.stop(None)
        submit = asyncio.create_task(client.submit("after"))
        await asyncio.sleep(0)
        server, _ = await serve(port)
        assert (await submit).region == "eu-west"
    await server.stop(None)
