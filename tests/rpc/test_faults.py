import asyncio
import contextlib
import random
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from tests.rpc.running import Running, running
from tradewind.errors import TradewindError
from tradewind.fleet import Fleet, Health

KEYS, SUBMITS_OF_EACH = 24, 4


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("by", ["idempotency_key", "request_id", "request_id and attempt"])
async def test_whatever_fails_every_key_ends_as_one_task_with_one_id(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, seed: int, by: str
) -> None:
    # A lease of 50 ms instead of 10 s, and what a router derives from it.
    monkeypatch.setattr("tradewind.store.intake.RESERVATION_LEASE_MS", 50)
    monkeypatch.setattr("router.reserve.HELD_S", 0.02)
    monkeypatch.setattr("router.signs.FULL_FOR_MS", 50)
    dice = random.Random(seed)
    quick = replace(fleet, health=Health(interval_ms=20))
    async with running(quick, "eu-west") as here, running(quick, "us-east") as there:
        for router in (here, there):
            for store in router.stores.values():
                store.roll(dice, 0.25)
        answers: defaultdict[str, set[str]] = defaultdict(set)
        tried: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

        async def submit(router: Running, key: str, nth: int, fields: dict[str, Any]) -> None:
            fields = {by.partition(" ")[0]: key, **fields}
            if by.endswith("attempt"):
                if nth == 0:
                    await first(router, key, fields)
                await tried[key].wait()
            answers[key].add((await router.insist(**fields)).task_id)

        async def first(router: Running, key: str, fields: dict[str, Any]) -> None:
            """The first attempt says so. Repeats come once it is over, as its sender sees it."""
            with contextlib.suppress(TradewindError):
                wait_s = dice.choice([0.02, 0.1, 10])
                answer = await router.submit(attempt=1, timeout_s=wait_s, **fields)
                answers[key].add(answer.task_id)
            tried[key].set()

        submits = [
            submit(dice.choice((here, there)), f"key-{number}", nth, fields)
            for number in range(KEYS)
            for fields in [_whereabouts(number, fleet)]
            for nth in range(SUBMITS_OF_EACH)
        ]
        dice.shuffle(submits)
        await asyncio.gather(*submits)

        assert {key: len(ids) for key, ids in answers.items()} == dict.fromkeys(answers, 1)
        assert sum((await here.stored()).values()) == KEYS


def _whereabouts(number: int, fleet: Fleet) -> dict[str, Any]:
    """One third of the tasks goes anywhere, one has an affinity, one an origin."""
    match number % 3:
        case 0:
            return {}
        case 1:
            return {"affinity_key": f"user-{number}"}
        case _:
            return {"origin_region": list(fleet.regions)[number % len(fleet.regions)]}
