"""What a client does, and says, while a router answers that regions do not."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import chain, repeat
from typing import Any

import pytest
from grpc import StatusCode

from tests.unit.client.scripted import Answer, ScriptedRouter, accepted
from tradewind import Client
from tradewind.client.calls import Refusal
from tradewind.client.repeats import LOGGER
from tradewind.client.repeats import repeat as asked_again
from tradewind.errors import NoAnswer, NoRegionReachable, OutcomeUnknown, RegionSilent
from tradewind.v1 import task_pb2

SILENT = RegionSilent(["eu-west"])
DOWN = NoRegionReachable("no permitted region can take the task now (eu-west: down); retry later")
UNKNOWN = OutcomeUnknown("06fk", deadline_passed=False, region="eu-west")

LOOKS: dict[str, Callable[..., Awaitable[Any]]] = {"get": Client.get, "cancel": Client.cancel}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
async def test_a_look_at_a_task_of_a_silent_region_ends_long_before_the_deadline(
    client: Client,
    router: ScriptedRouter,
    monkeypatch: pytest.MonkeyPatch,
    look: Callable[..., Awaitable[Any]],
) -> None:
    monkeypatch.setattr("tradewind.client.core.SILENCE_S", 0.5)  # a router asks for 1 s
    router.looks_refused = SILENT
    with pytest.raises(RegionSilent, match="no answer from region eu-west: what it holds is kept"):
        await look(client, "id")
    assert router.looks == 1


async def test_unless_it_says_itself_how_long_it_may_take(
    client: Client, router: ScriptedRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tradewind.client.core.SILENCE_S", 0.0)
    router.looks_refused = SILENT
    with pytest.raises(RegionSilent):
        await client.get("id", deadline=1.5)
    assert router.looks == 2


async def test_an_attempt_that_is_cut_short_ends_with_what_the_last_one_was_told() -> None:
    patience_s: list[float] = []

    async def attempt(left_s: float) -> None:
        patience_s.append(left_s)
        if len(patience_s) > 1:
            await asyncio.sleep(left_s)
            raise Refusal(StatusCode.UNAVAILABLE, NoAnswer("router", left_s))
        raise Refusal(StatusCode.UNAVAILABLE, SILENT)

    with pytest.raises(RegionSilent):
        await asked_again(attempt, 30.0, silence_s=0.3)
    assert len(patience_s) == 2
    assert patience_s[1] <= 0.3


async def test_a_router_that_says_nothing_is_named_with_the_whole_wait(
    client: Client, router: ScriptedRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tradewind.client.core.ATTEMPT_S", 0.25)  # the last one is shorter
    router.gate.clear()
    with pytest.raises(NoAnswer, match=r"within 0\.4 s; ask again later"):
        await client.get("id", deadline=0.4)


WAITS: dict[str, tuple[list[Exception], list[str]]] = {
    "for a region, once and why": ([DOWN, DOWN], ["asking again for up to 30 s: " + str(DOWN)]),
    "for what is told of one task": ([UNKNOWN], []),
    "for a region that at first did not say": ([UNKNOWN, DOWN], ["asking again for up to 30 s: "]),
}


@pytest.mark.parametrize(("refusals", "said"), WAITS.values(), ids=WAITS)
async def test_a_submit_that_waits_tells(
    client: Client,
    router: ScriptedRouter,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    refusals: list[Exception],
    said: list[str],
) -> None:
    monkeypatch.setattr("tradewind.statuses._DEFAULT_RETRY_MS", 1)
    answers: Any = chain(refusals, repeat(None))

    def answer(spec: task_pb2.TaskSpec) -> Answer:
        return next(answers) or accepted(spec)

    router.answer = answer
    with caplog.at_level(logging.INFO, LOGGER):
        await client.submit("email.send")
    told = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert len(told) == len(said)
    assert all(line.startswith(words) for line, words in zip(told, said, strict=True))


async def test_the_last_answer_is_what_a_submit_ends_with(
    client: Client, router: ScriptedRouter
) -> None:
    def answer(_: task_pb2.TaskSpec) -> Answer:
        return DOWN

    router.answer = answer
    with pytest.raises(NoRegionReachable, match="eu-west: down"):
        await client.submit("email.send", deadline=0.3)
