"""Dead letters and other regions: case C25, and where a task goes when its region cannot."""

import json
from collections.abc import Callable

import pytest

from tests.flow.lab import REGIONS, Lab
from tradewind import codec, ids
from tradewind.state import State
from tradewind.task import Bury, Failure, Pointer, Record

QUEUE = (
    "{{lease: 1s, attempts: 2, backoff: {{initial: 20ms, factor: 2, max: 50ms}},"
    " failover: {{on: [exhausted, timeout], max_hops: {hops}}}}}"
)


async def final(lab: Lab, task_id: str) -> Record:
    """The task in whichever region it has ended for good."""
    found: list[Record] = []

    async def has_ended() -> bool:
        for region in lab.stores:
            record = await lab.record(task_id, region)
            if record is not None and record.settled:
                found.append(record)
        return bool(found)

    await lab.until(has_ended)
    (record,) = found
    return record


async def test_what_a_region_cannot_finish_another_one_does(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(QUEUE.format(hops=1), regions=2)
    for region in ("eu-west", "us-east"):
        await lab.worker(region)
    task_id = await lab.submit("fail.in", {"regions": ["eu-west"]})

    async def moved() -> bool:
        record = await lab.record(task_id, "us-east")
        return record is not None and record.state is State.COMPLETED

    await lab.until(moved)
    record = await lab.record(task_id, "us-east")
    assert record is not None
    assert json.loads(record.result) == "us-east"
    stays = [(stay.region, stay.attempts, stay.reason) for stay in codec.hops(record.hops)]
    assert stays == [("eu-west", 2, "exhausted")]
    left: list[Pointer] = []

    async def has_let_go() -> bool:  # soon after: its arrival is confirmed first
        found = await lab.stores["eu-west"].read(task_id)
        left.extend([found] if isinstance(found, Pointer) else [])
        return bool(left)

    await lab.until(has_let_go)
    assert (left[0].target, left[0].epoch) == ("us-east", record.epoch)
    starts = [(line.region, line.attempt) for line in lab.lines(task_id, "start")]
    assert starts == [("eu-west", 1), ("eu-west", 2), ("us-east", 1)]


async def test_c25_a_hopeless_task_does_not_travel_for_ever(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(QUEUE.format(hops=9), regions=3)
    for region in REGIONS:
        await lab.worker(region)
    submitted = [await lab.submit("fail.in", {"regions": list(REGIONS)}) for _ in range(5)]
    for task_id in submitted:
        record = await final(lab, task_id)
        assert (record.state, record.death) == (State.DEAD_LETTER, "exhausted")
        route = [stay.region for stay in codec.hops(record.hops)] + [record.region]
        assert sorted(route) == sorted(REGIONS)
        assert route[0] == "eu-west"
        assert record.failover == "every permitted region was tried"
        starts = [line.region for line in lab.lines(task_id, "start")]
        assert {region: starts.count(region) for region in REGIONS} == dict.fromkeys(REGIONS, 2)


async def test_the_hop_limit_ends_the_journey(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(QUEUE.format(hops=1), regions=3)
    for region in REGIONS:
        await lab.worker(region)
    record = await final(lab, await lab.submit("fail.in", {"regions": list(REGIONS)}))
    assert len(codec.hops(record.hops)) == 1
    assert record.failover == "moved once, failover.max_hops is 1"


async def test_a_pinned_task_stays(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(QUEUE.format(hops=1), regions=2)
    for region in ("eu-west", "us-east"):
        await lab.worker(region)
    task_id = await lab.submit("fail.in", {"regions": ["eu-west"]}, pin_region="eu-west")
    record = await final(lab, task_id)
    assert (record.region, record.failover) == ("eu-west", "pinned to region eu-west")


@pytest.mark.parametrize("imported", [False, True], ids=["before the import", "after the import"])
async def test_a_move_whose_courier_died_is_carried_on(
    make_lab: Callable[..., Lab], imported: bool
) -> None:
    lab = make_lab(QUEUE.format(hops=1), regions=2)
    source, target = lab.stores["eu-west"], lab.stores["us-east"]
    task_id = await lab.submit("fail.in", {"regions": ["eu-west"]})
    batch = await source.claim(
        ids.parse(task_id).partition,
        worker_id="gone",
        lease_ms={"default": 1000},
        handlers=["fail.in"],
        limit=1,
    )
    failure = Failure("error", "as asked")
    bury = Bury(batch.claims[0], "exhausted", failure, retention_ms=60_000, may_move=True)
    await source.bury([bury])
    record = await lab.record(task_id)
    assert record is not None
    exported = await source.begin_export(record, "us-east", groups=["eu"])
    assert exported is not None
    if imported:
        hops = codec.add_hop(
            record.hops,
            region="eu-west",
            state=State.DEAD_LETTER,
            attempts=record.attempts,
            reason=record.death,
            at_ms=record.finished_ms,
        )
        assert await target.import_task(exported, hops=hops, timeout_s=5) == "imported"
    for region in ("us-east", "eu-west"):
        await lab.worker(region)

    async def let_go() -> bool:
        return isinstance(await source.read(task_id), Pointer)

    await lab.until(let_go)
    ended = await lab.ended(task_id, "us-east")
    assert [stay.region for stay in codec.hops(ended.hops)] == ["eu-west"]
    assert [line.region for line in lab.lines(task_id, "start")] == ["us-east"]
