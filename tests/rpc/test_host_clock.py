"""What a router decides while its host's clock, or its client's, is days off."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.rpc import labour
from tests.rpc.flaky import FlakyStore
from tests.rpc.running import Running, answered, running
from tradewind import Client
from tradewind.clock import SystemClock
from tradewind.errors import UnknownTask
from tradewind.fleet import Fleet
from tradewind.limits import DAY_MS, HOUR_MS, MINUTE_MS
from tradewind.task import Record
from tradewind.v1 import admin_pb2, task_pb2

OFF_MS = {"fast": 40 * DAY_MS, "slow": -40 * DAY_MS}
HOUR = Duration(seconds=3_600)
MOMENT = Duration(nanos=1_000_000)


class Off(SystemClock):
    """The host's clock, set wrongly."""

    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._by_ms


@pytest.fixture(params=OFF_MS.values(), ids=tuple(OFF_MS))
async def serving(fleet: Fleet, request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    async with running(fleet, clock=Off(request.param)) as serving:
        yield serving


async def bury(serving: Running, region: str) -> str:
    receipt = await serving.submit(pin_region=region)
    await labour.bury(serving.stores[region], receipt.task_id)
    return receipt.task_id


async def exists(serving: Running, task_id: str) -> bool:
    try:
        return (await serving.get(task_id)).state == task_pb2.TASK_STATE_DEAD_LETTER
    except UnknownTask:
        return False


def which(age: Duration) -> admin_pb2.DeadTaskFilter:
    return admin_pb2.DeadTaskFilter(older_than=age)


@pytest.mark.parametrize("region", ["eu-west", "us-east"])
async def test_the_age_of_a_dead_task_is_by_its_regions_clock(
    serving: Running, region: str
) -> None:
    task_id = await bury(serving, region)
    admin: Any = serving.admin

    kept = await answered(admin.PurgeDeadTasks(admin_pb2.PurgeDeadTasksRequest(filter=which(HOUR))))
    left = await answered(
        admin.RedriveDeadTasks(admin_pb2.RedriveDeadTasksRequest(filter=which(HOUR)))
    )
    young = await answered(admin.ListDeadTasks(admin_pb2.ListDeadTasksRequest(filter=which(HOUR))))
    assert (kept.count, left.count, list(young.tasks), young.total) == (0, 0, [], 0)
    assert await exists(serving, task_id)

    listed = await answered(
        admin.ListDeadTasks(admin_pb2.ListDeadTasksRequest(filter=which(MOMENT)))
    )
    purged = await answered(
        admin.PurgeDeadTasks(admin_pb2.PurgeDeadTasksRequest(filter=which(MOMENT)))
    )
    assert ([task.task_id for task in listed.tasks], purged.count) == ([task_id], 1)
    assert not await exists(serving, task_id)


async def test_a_region_that_does_not_tell_its_time_is_named_and_nothing_of_it_purged(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(fleet) as serving:
        task_id = await bury(serving, "us-east")

        def untold(_: FlakyStore) -> None:
            """No answer has told it, not even a probe."""

        monkeypatch.setattr(FlakyStore, "now_ms", untold)

        done = await answered(
            serving.admin.PurgeDeadTasks(
                admin_pb2.PurgeDeadTasksRequest(
                    filter=admin_pb2.DeadTaskFilter(region="us-east", older_than=MOMENT)
                )
            )
        )

        assert (done.count, list(done.silent_regions)) == (0, ["us-east"])
        assert await exists(serving, task_id)


async def test_a_health_check_tells_the_time_by_the_regions_clocks(serving: Running) -> None:
    stub: Any = health_pb2_grpc.HealthStub(serving.channel)
    told = dict(await stub.Check(health_pb2.HealthCheckRequest()).initial_metadata())

    # The test's Redis servers have this host's clock, which is right here.
    assert abs(int(told["tradewind-now-ms"]) - SystemClock().now_ms()) < MINUTE_MS


async def expiry_ms(serving: Running, client: Client, **options: Any) -> int:
    receipt = await client.submit("email.send", **options)
    record = await serving.stores[receipt.region].real.read(receipt.task_id)
    assert isinstance(record, Record)
    return record.expires_ms


@pytest.mark.parametrize("off_ms", OFF_MS.values(), ids=OFF_MS)
async def test_a_client_whose_clock_is_off_counts_an_expiry_from_the_regions_time(
    serving: Running, off_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    right_ms = SystemClock.now_ms

    def wrong_ms(clock: SystemClock) -> int:
        return right_ms(clock) + off_ms

    monkeypatch.setattr(SystemClock, "now_ms", wrong_ms)
    async with Client(serving.server.address, origin_region="eu-west") as client:
        until_ms = await expiry_ms(serving, client, expires=timedelta(hours=1))

    assert abs(until_ms - right_ms(SystemClock()) - HOUR_MS) < MINUTE_MS
