"""Case C30: instants are instants, whatever zone a process thinks it is in, and absurd ones end."""

import asyncio
import os
import sys
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf.timestamp_pb2 import Timestamp

from tests.cases.scale import Scale
from tests.conftest import fleet_at
from tests.flow.lab import Lab, free_address
from tests.harness.patience import until
from tests.rpc.running import answered, running, spec
from tradewind import Client
from tradewind.admission import admit
from tradewind.client.times import moment, to_timestamp
from tradewind.clock import SystemClock
from tradewind.errors import InvalidTask, TradewindError
from tradewind.fleet import Fleet, Health
from tradewind.limits import HOUR_MS
from tradewind.local.leash import leashed
from tradewind.v1 import router_pb2, router_pb2_grpc, task_pb2

# In full, so that no machine needs a table of zones: rules of 2026.
SYDNEY = "AEST-10AEDT,M10.1.0,M4.1.0/3"
NEW_YORK = "EST5EDT,M3.2.0,M11.1.0"
ZONES = {"UTC": "UTC0", "Sydney": SYDNEY, "New York": NEW_YORK}
LATE_S = 2.0  # the case's own bound


@pytest_asyncio.fixture
async def zoned(
    make_lab: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Lab, Client, str]]:
    """A router in Sydney, a worker in New York, a client in UTC; the router's address is last."""
    lab = make_lab(Scale(1.0, full=False).queue)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", NEW_YORK)
        await lab.worker("eu-west", "--concurrency", "8")
    address, http = free_address(), free_address()
    command = [sys.executable, "-P", "-m", "router", "--config", str(lab.config)]
    command += ["--region", "eu-west", "--listen", address, "--http", http]
    router = await asyncio.create_subprocess_exec(
        *leashed(command), stdout=DEVNULL, stderr=DEVNULL, env={**os.environ, "TZ": SYDNEY}
    )
    try:
        async with Client(address, origin_region="eu-west") as client:

            async def serves() -> bool:
                try:
                    route = await client.explain("sleep", deadline=1.0)
                except TradewindError:
                    return False
                return all(each.eligible for each in route.candidates)

            await until(serves, "the router has seen the worker")
            yield lab, client, address
    finally:
        router.terminate()
        assert await router.wait() == 0


Due = Callable[[float], dict[str, Any]]


def now_s() -> float:
    """The time of day on this machine, whose Redis servers go by the same clock."""
    return SystemClock().now_ms() / 1000


def now() -> datetime:
    return datetime.fromtimestamp(now_s(), UTC)


def in_zone(hours: float) -> Due:
    """An instant that is told with such an offset."""
    zone = timezone(timedelta(hours=hours))
    return lambda at_s: {"not_before": datetime.fromtimestamp(at_s, zone)}


WAYS: dict[str, Due] = {
    "as a delay": lambda at_s: {"delay": at_s - now_s()},
    "in UTC": in_zone(0),
    "as Sydney tells it in summer": in_zone(11),
    "as New York tells it in winter": in_zone(-5),
    "as India tells it": in_zone(5.5),
}


@pytest.mark.parametrize(
    ("delay_s", "full"),
    [
        pytest.param(1.5, False, id="short"),
        pytest.param(120.0, True, id="full", marks=[pytest.mark.long, pytest.mark.timeout(240)]),
    ],
)
async def test_c30_a_task_starts_when_it_is_due_however_that_is_told(
    zoned: tuple[Lab, Client, str], delay_s: float, full: bool
) -> None:
    lab, client, _ = zoned
    lab.patience_s += delay_s
    due_s: dict[str, float] = {}
    for tell in WAYS.values():
        at_s = now_s() + delay_s
        receipt = await client.submit("sleep", {"seconds": 0}, **tell(at_s))
        assert receipt.state == "SCHEDULED"
        due_s[receipt.task_id] = at_s

    for task_id, at_s in due_s.items():
        (start,) = await lab.begun(task_id)
        late_s = start.at + (now_s() - time.monotonic()) - at_s
        assert late_s > -0.002, "never early: a task's clock has whole ms"
        if full:
            assert late_s < LATE_S


PAST: dict[str, Callable[[], dict[str, Any]]] = {
    "an hour ago": lambda: {"not_before": to_timestamp("", now() - timedelta(hours=1))},
    "0": lambda: {"not_before": Timestamp()},
    "before 1970": lambda: {"not_before": Timestamp(seconds=-1)},
    "the year 1": lambda: {"not_before": Timestamp(seconds=-62_135_596_800)},
}
ABSURD: dict[str, dict[str, Any]] = {
    "year 9999": {"not_before": Timestamp(seconds=253_402_300_799)},
    "year 10000": {"not_before": Timestamp(seconds=253_402_300_800)},
    "before the year 1": {"not_before": Timestamp(seconds=-62_135_596_801)},
    "half a nanosecond too many": {"not_before": Timestamp(nanos=10**9)},
    "an end in the year 10000": {"expires_at": Timestamp(seconds=253_402_300_800)},
}


async def test_c30_what_is_past_starts_at_once_and_the_impossible_is_refused(
    zoned: tuple[Lab, Client, str],
) -> None:
    lab, client, address = zoned
    async with grpc.aio.insecure_channel(address) as channel:
        submit: Any = router_pb2_grpc.RouterServiceStub(channel).SubmitTask
        for tell in PAST.values():
            sent = spec(name="sleep", payload=b'{"seconds": 0}', **tell())
            receipt = await answered(submit(router_pb2.SubmitTaskRequest(spec=sent)))
            await lab.begun(receipt.task_id)
        for fields in ABSURD.values():
            with pytest.raises(InvalidTask) as refused:
                await answered(submit(router_pb2.SubmitTaskRequest(spec=spec(**fields))))
            assert [v.field for v in refused.value.violations] == list(fields)
    refusals: list[dict[str, Any]] = [
        {"delay": float("nan")},
        {"delay": float("inf")},
        {"delay": -1},
        {"delay": timedelta(days=31)},
        {"not_before": now() + timedelta(days=31)},
        {"not_before": datetime(2026, 11, 1, 1, 30)},  # noqa: DTZ001 - of no zone: never guessed
        {"expires": float("nan")},
        {"expires_at": now() - timedelta(hours=1)},
    ]
    for fields in refusals:
        with pytest.raises(InvalidTask) as refused:
            await client.submit("sleep", {"seconds": 0}, **fields)
        assert [v.field for v in refused.value.violations] == list(fields)
    assert await waiting(lab) == 0, "nothing is kept of what was refused"


async def waiting(lab: Lab) -> int:
    counts = await lab.stores["eu-west"].counts()
    return sum(queue.scheduled for queue in counts.values())


@dataclass(frozen=True, slots=True)
class Skewed:
    """A host's clock that is wrong by `ms`."""

    ms: int

    def now_ms(self) -> int:
        return SystemClock().now_ms() + self.ms

    def monotonic_ms(self) -> float:
        return SystemClock().monotonic_ms()


@pytest.mark.parametrize("off_ms", [-2 * HOUR_MS, 2 * HOUR_MS], ids=["slow", "fast"])
async def test_c30_a_router_whose_clock_is_hours_off_decides_nothing_by_it(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, off_ms: int
) -> None:
    monkeypatch.setattr("tests.rpc.running.SystemClock", lambda: Skewed(off_ms))
    async with running(replace(fleet, health=Health(interval_ms=100))) as serving:
        at_ms = SystemClock().now_ms() + HOUR_MS
        sent = Timestamp()
        sent.FromMilliseconds(at_ms)
        task_id = (await serving.submit(not_before=sent)).task_id
        assert (await serving.get(task_id)).next_attempt_at.ToMilliseconds() == at_ms
        assert (await serving.submit(expires_at=sent)).state == task_pb2.TASK_STATE_PENDING
        sent.FromMilliseconds(at_ms - 2 * HOUR_MS)
        assert (await serving.submit(not_before=sent)).state == task_pb2.TASK_STATE_PENDING
        with pytest.raises(InvalidTask, match="expires_at"):
            await serving.submit(expires_at=sent)


# --- dates that no machine here can be set to


@pytest.fixture(params=ZONES.values(), ids=list(ZONES))
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """This process lives there."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


NIGHTS = {
    "January": "2026-01-15T02:30:00-05:00",
    "July": "2026-07-15T02:30:00-04:00",
    "New York skips this hour": "2026-03-08T02:30:00-05:00",
    "... which is told so, too": "2026-03-08T03:30:00-04:00",
    "New York doubles this hour: first": "2026-11-01T01:30:00-04:00",
    "... and once more": "2026-11-01T01:30:00-05:00",
    "Sydney skips this hour": "2026-10-04T02:30:00+10:00",
    "Sydney doubles this hour: first": "2026-04-05T02:30:00+11:00",
    "... and once more in Sydney": "2026-04-05T02:30:00+10:00",
    "the last second of a leap year": "2028-12-31T23:59:59+00:00",
}


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("text", NIGHTS.values(), ids=NIGHTS)
def test_c30_on_nights_when_clocks_change_120_s_are_120_s(text: str) -> None:
    at = datetime.fromisoformat(text)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    at_ms = (at - epoch) // timedelta(milliseconds=1)
    sent = to_timestamp("not_before", at)
    assert moment(sent) == at
    admitted = admit.check(
        spec(not_before=sent), fleet_at("standalone", [1]), now_ms=at_ms - 120_000
    )
    assert admitted.not_before_ms == at_ms
    expiring = spec(expires_at=sent)
    admit.check(expiring, fleet_at("standalone", [1]), now_ms=at_ms - 120_000)
    with pytest.raises(InvalidTask):
        admit.check(expiring, fleet_at("standalone", [1]), now_ms=at_ms)
