"""A submit that certainly left nothing is made again under another request_id, and is one task.

What is kept where is read past all our code: each payload has a mark of its own.
"""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
import redis

from tests.conftest import fleet_on
from tests.harness.patience import until
from tests.redis_keys import flush
from tests.rpc.ledgers import A_WHILE, GONE, LOST, spared
from tests.rpc.running import Running, running
from tests.sharded import ports_of
from tradewind import Client, Receipt, TaskRequest
from tradewind.client.calls import Refusal
from tradewind.client.request_ids import RequestIds
from tradewind.errors import (
    HomeUnreachable,
    RegionsFull,
    RouterUnreachable,
    StoreContractBroken,
    StoreError,
    StoreFull,
    TradewindError,
)
from tradewind.fleet import Fleet, Health
from tradewind.local.scratch import RedisProcess, redis_process

HERE, HOME, SPARE = "eu-west", "us-east", "ap-south"

BROKEN = StoreContractBroken("foreign data")
FULL = StoreFull("x")
MARK = re.compile(rb"mark-(\d+);")


def marked(*numbers: int) -> list[TaskRequest]:
    return [TaskRequest(f"send-{number}", {"mark": f"mark-{number};"}) for number in numbers]


def kept(ports: Iterable[int]) -> Counter[int]:
    """How many tasks there are of each mark, in all regions together."""
    found: Counter[int] = Counter()
    for port in ports:
        server = cast("Any", redis.Redis(port=port))
        for key in server.scan_iter(match="*}:t:*"):
            found.update(int(mark) for mark in MARK.findall(b" ".join(server.hvals(key))))
    return found


def entries(ports: Iterable[int]) -> int:
    return sum(
        len(list(cast("Any", redis.Redis(port=port)).scan_iter(match="*}:led:*"))) for port in ports
    )


@pytest.fixture
def minted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every request_id that the SDK mints."""
    found: list[str] = []
    mint = RequestIds.mint

    def noted(self: RequestIds, instead_of: str = "") -> str:
        found.append(mint(self, instead_of))
        return found[-1]

    monkeypatch.setattr(RequestIds, "mint", noted)
    return found


@pytest.fixture
def ports(redis_servers: list[RedisProcess]) -> list[int]:
    return [port for server in redis_servers for port in ports_of(server)]


def lose(serving: Running, region: str, method: str, *errors: StoreError) -> None:
    serving.stores[region].fail(method, *errors)


def _soon_ms(_error: TradewindError) -> int:
    return 20


async def test_callers_of_a_lost_region_go_on_in_the_one_that_is_left_of_three(
    redis_servers: list[RedisProcess], tmp_path: Path, minted: list[str]
) -> None:
    with redis_process(tmp_path / "us") as us, redis_process(tmp_path / "ap") as ap:
        servers = [redis_servers[0], us, ap]
        health = Health(interval_ms=100, timeout_ms=500)
        fleet = replace(fleet_on(servers), health=health)
        async with running(fleet, HERE) as serving:
            for lost in (us, ap):
                await asyncio.to_thread(lost.kill)

            def both_are_out() -> bool:
                return set(serving.gateway.census.silent()) == {HOME, SPARE}

            await until(both_are_out, "both are down")
            async with Client(serving.server.address, origin_region=HOME, deadline=8) as client:
                answers = await client.submit_many(marked(*range(24)))
            for lost in (us, ap):
                await asyncio.to_thread(lost.start)

            assert [answer for answer in answers if not isinstance(answer, Receipt)] == []
            assert {answer.region for answer in answers if isinstance(answer, Receipt)} == {HERE}
            assert len(minted) > 24
            assert kept(p for server in servers for p in ports_of(server)) == Counter(range(24))


async def test_a_submit_that_may_have_reached_its_home_keeps_its_request_id(
    serving: Running, ports: list[int], minted: list[str], short_lease: None
) -> None:
    serving.stores[HOME].fail("reserve", LOST, late=True)
    lose(serving, HOME, "reserve", *[GONE] * A_WHILE)
    for other in (HERE, SPARE):
        lose(serving, other, "reserve", *[GONE] * A_WHILE)

    async with Client(serving.server.address, origin_region=HOME) as client:
        [request] = marked(0)
        submit = asyncio.create_task(client.submit(request.name, request.args, pin_region=HERE))

        def was_repeated() -> bool:
            asked = [name for each in (HERE, SPARE) for name, _ in serving.stores[each].calls]
            return "reserve" in asked  # a first attempt that may be at home does not ask another

        await until(was_repeated, "it has been made again")
        for store in serving.stores.values():
            store.faults.clear()
        await submit

    assert len(minted) == 1
    assert kept(ports) == Counter([0])


# What fails of a submit with its entry at home, else at the spare home, and its task here
# -> whether it says that nothing is kept, and that another request_id may be kept elsewhere.
Faults = dict[tuple[str, str], list[StoreError]]
SAID: dict[str, tuple[Faults, tuple[bool, bool]]] = {
    "neither home was reached": (
        {(HOME, "reserve"): [GONE], (SPARE, "reserve"): [GONE]},
        (True, True),
    ),
    "both homes are full": ({(HOME, "reserve"): [FULL], (SPARE, "reserve"): [FULL]}, (True, True)),
    "home took it and did not say so": ({(HOME, "reserve"): [LOST, GONE]}, (False, False)),
    "home may have run half of the script": ({(HOME, "reserve"): [BROKEN]}, (False, False)),
    "the spare home took it and did not say so": (
        {(HOME, "reserve"): [GONE], (SPARE, "reserve"): [LOST, GONE]},
        (False, False),
    ),
    "the spare home took it, the region refused, it was given back": (
        {(HOME, "reserve"): [GONE], (HERE, "enqueue"): [GONE], (HERE, "refuse"): [GONE]},
        (True, False),  # no region is left, whatever the request_id
    ),
    "the spare home took it, the region refused, it was not given back": (
        {
            (HOME, "reserve"): [GONE],
            (HERE, "enqueue"): [GONE],
            (HERE, "refuse"): [GONE],
            (SPARE, "unreserve"): [LOST],
        },
        (False, False),
    ),
    "home took it, the region did not say whether it did": (
        {(HERE, "enqueue"): [LOST] * A_WHILE},
        (False, False),
    ),
    "and neither did the spare home's": (
        {(HOME, "reserve"): [GONE], (HERE, "enqueue"): [LOST] * A_WHILE},
        (False, False),
    ),
}


@pytest.mark.parametrize(("faults", "said"), SAID.values(), ids=SAID)
@pytest.mark.parametrize("attempt", [1, 2])
async def test_that_nothing_is_kept_is_said_only_of_a_first_attempt_that_left_nothing(
    serving: Running,
    fleet: Fleet,
    ports: list[int],
    faults: Faults,
    said: tuple[bool, bool],
    attempt: int,
) -> None:
    payload = b'{"m":"mark-7;"}'
    fields: dict[str, Any] = spared(fleet, HOME, SPARE) | {"pin_region": HERE, "payload": payload}
    for (region, method), errors in faults.items():
        for error in errors:
            is_late = error is LOST
            serving.stores[region].fail(method, error, late=is_late)

    with pytest.raises(TradewindError) as refused:
        await serving.submit(attempt=attempt, timeout_s=0.5, **fields)

    error = refused.value
    assert (error.nothing_kept, error.elsewhere) == (said if attempt == 1 else (False, False))
    if error.nothing_kept:
        assert (kept(ports), entries(ports)) == (Counter(), 0)


async def test_it_is_not_said_of_a_business_key_which_has_one_home_whatever_the_request_id(
    serving: Running,
) -> None:
    key = await serving.key_at(HOME, pin_region=HERE)
    lose(serving, HOME, "reserve", GONE)

    with pytest.raises(HomeUnreachable) as refused:
        await serving.submit(attempt=1, idempotency_key=key, request_id="r", pin_region=HERE)

    assert (refused.value.nothing_kept, refused.value.elsewhere) == (False, False)


async def test_it_is_not_said_of_a_first_attempt_whose_repeat_was_faster(
    serving: Running, fleet: Fleet
) -> None:
    fields: dict[str, Any] = spared(fleet, HOME, SPARE) | {"pin_region": HERE}
    await serving.submit(attempt=2, **fields)
    lose(serving, HOME, "reserve", GONE)

    with pytest.raises(HomeUnreachable) as refused:
        await serving.submit(attempt=1, **fields)

    assert not refused.value.nothing_kept


async def test_it_is_not_said_of_a_first_attempt_that_met_what_another_one_had_left(
    serving: Running, fleet: Fleet, redis_servers: list[RedisProcess]
) -> None:
    fields: dict[str, Any] = spared(fleet, HOME, SPARE) | {"pin_region": HERE}
    await serving.submit(attempt=2, **fields)
    flush(redis_servers[0].port)  # its task is gone, so its entry is removed
    pause = serving.stores[HOME].pause("forget", before=True)

    late = asyncio.create_task(serving.submit(attempt=1, **fields))
    await pause.reached.wait()
    lose(serving, HOME, "reserve", *[GONE] * A_WHILE)
    lose(serving, SPARE, "reserve", *[GONE] * A_WHILE)
    pause.over.set()
    with pytest.raises(HomeUnreachable) as refused:
        await late

    assert not refused.value.nothing_kept


@pytest.mark.parametrize("seed", range(2))
async def test_whatever_fails_a_submit_of_the_sdk_is_one_task_and_never_two(
    fleet: Fleet,
    ports: list[int],
    minted: list[str],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    # A lease of 50 ms instead of 10 s, and what a router derives from it.
    monkeypatch.setattr("tradewind.store.intake.RESERVATION_LEASE_MS", 50)
    monkeypatch.setattr("router.reserve.HELD_S", 0.02)
    monkeypatch.setattr("router.signs.FULL_FOR_MS", 50)
    monkeypatch.setattr("tradewind.statuses.retry_after_ms", _soon_ms)
    monkeypatch.setattr("tradewind.client.repeats._MAX_S", 0.1)
    monkeypatch.setattr("tradewind.client.repeats._PART", 0.0)
    quick = replace(fleet, health=Health(interval_ms=20))
    async with running(quick, HERE) as serving:
        monkeypatch.setattr(Client, "_attempt", storm(serving, random.Random(seed)))
        # Most go to another region than their entries, each with calls of its own.
        tasks = [replace(one, options={"affinity_key": one.name}) for one in marked(*range(60))]
        async with Client(serving.server.address, origin_region=HOME) as client:
            answers = await client.submit_many(tasks)

        assert len(minted) > 60
        tasks_of = kept(ports)
        stored = [n for n, answer in enumerate(answers) if isinstance(answer, Receipt)]
        assert [tasks_of[number] for number in stored] == [1] * len(stored)
        for number in {*range(60)} - {*stored}:  # no answer but this one ends a submit
            assert isinstance(answers[number], RegionsFull | StoreFull)
            assert tasks_of[number] <= 1


def storm(serving: Running, dice: random.Random) -> Any:
    """The SDK's way to make an attempt, on which 240 of them meet faults and lose answers."""
    attempted: Any = Client._attempt  # pyright: ignore[reportPrivateUsage]
    number = count(1)
    for store in serving.stores.values():
        store.roll(dice, 0.4)
        store.fail("reserve", *[GONE] * 20)  # at first: what many other ids come of

    async def attempt(client: Client, *arguments: Any) -> Receipt:
        is_lost = (now := next(number)) <= 240 and dice.random() < 0.4
        if now == 240:
            for store in serving.stores.values():
                store.roll(dice, 0.0)
                store.faults.clear()
        with suppress(Refusal) if is_lost else nullcontext():
            receipt = await attempted(client, *arguments)
            if not is_lost:
                return receipt
        raise Refusal(grpc.StatusCode.UNAVAILABLE, RouterUnreachable("router:7070", "by dice"))

    return attempt
