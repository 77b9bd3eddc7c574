"""Another policy file while a router serves: all of it at once, or nothing of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.harness.patience import until
from tests.rpc.running import Running, answered, running, spec
from tests.sharded import written
from tradewind import regions
from tradewind.errors import InvalidTask, NoRegionPermitted, PolicyRefused, RegionSilent
from tradewind.fleet import Fleet
from tradewind.policy_file import PolicyFile
from tradewind.v1 import admin_pb2, router_pb2

BOTH = ("eu-west", "us-east")
ALL = (*BOTH, "ap-south")
PERSONAL = {"data": "personal"}


class File:
    """A regions.yaml over the servers of `fleet`."""

    def __init__(self, path: Path, fleet: Fleet) -> None:
        self.path, self._fleet = path, fleet
        self.say(BOTH)

    def say(self, names: Sequence[str], *, fence: str = "eu, us") -> None:
        """Have these regions, and personal data inside `fence`."""
        lines = ["version: 1", f"partitions: {self._fleet.partitions}", "regions:"]
        for name in names:
            region = self._fleet.regions[name]
            redis = written(region.redis)
            lines.append(f"  {name}: {{redis: {redis}, residency: [{region.residency[0]}]}}")
        match = "{labels: {data: personal}}"
        lines += ["rules:", f"  - {{name: personal, match: {match}, residency: [{fence}]}}"]
        self.path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def file(tmp_path: Path, fleet: Fleet) -> File:
    return File(tmp_path / "regions.yaml", fleet)


@pytest.fixture
async def serving(file: File) -> AsyncIterator[Running]:
    """Follows the file when it is told to; a region that leaves is parted from at once."""
    policy = PolicyFile(str(file.path), "eu-west")
    async with running(policy.fleet, policy=policy, linger_s=0) as one:
        yield one


async def reload(serving: Running) -> str:
    request = admin_pb2.ReloadPolicyRequest()
    return (await answered(serving.admin.ReloadPolicy(request))).policy_version


async def test_a_fence_that_narrows_holds_from_the_next_submit_on(
    serving: Running, file: File
) -> None:
    """Also for shapes of tasks that the router knows, and in streams that are open."""
    questions: asyncio.Queue[router_pb2.SubmitTaskStreamRequest] = asyncio.Queue()

    async def asked() -> AsyncIterator[router_pb2.SubmitTaskStreamRequest]:
        while True:
            yield await questions.get()

    stream = serving.router.SubmitTaskStream(asked())
    abroad: dict[str, Any] = {"labels": PERSONAL, "pin_region": "us-east"}
    await questions.put(router_pb2.SubmitTaskStreamRequest(specs=[spec(**abroad)]))
    assert (await stream.read()).results[0].accepted.region == "us-east"
    before = (await serving.explain(labels=PERSONAL)).policy_version
    file.say(BOTH, fence="eu")

    after = await reload(serving)

    await questions.put(router_pb2.SubmitTaskStreamRequest(specs=[spec(**abroad)]))
    assert (await stream.read()).results[0].error.code == grpc.StatusCode.FAILED_PRECONDITION.value[
        0
    ]
    with pytest.raises(NoRegionPermitted):
        await serving.submit(**abroad)
    explained = await serving.explain(labels=PERSONAL)
    assert explained.policy_version == after != before
    assert {c.region: c.excluded_by for c in explained.candidates}["us-east"] == "outside the fence"
    assert (await serving.submit(labels=PERSONAL)).region == "eu-west"
    stream.cancel()


async def test_regions_come_and_go_while_submits_go_on(serving: Running, file: File) -> None:
    over, failures, regions_seen = asyncio.Event(), list[BaseException](), set[str]()

    async def submit() -> None:
        while not over.is_set():
            try:
                regions_seen.add((await serving.submit(labels=PERSONAL)).region)
            except Exception as error:  # noqa: BLE001 - what it is about
                failures.append(error)

    submitting = [asyncio.create_task(submit()) for _ in range(4)]
    with pytest.raises(InvalidTask, match="ap-south"):
        await serving.submit(pin_region="ap-south")

    file.say(ALL)
    await reload(serving)
    there = await serving.insist(pin_region="ap-south")
    assert there.region == "ap-south"
    assert (await serving.get(there.task_id)).region == "ap-south"
    listed = await answered(serving.admin.ListRegions(admin_pb2.ListRegionsRequest()))
    assert [region.name for region in listed.regions] == list(ALL)
    census = serving.gateway.census
    await until(lambda: census.view("ap-south").health == "HEALTHY", "the new region is probed")

    file.say(BOTH)
    await reload(serving)
    assert [view.name for view in census.views()] == list(BOTH)
    with pytest.raises(InvalidTask, match="ap-south"):
        await serving.submit(pin_region="ap-south")
    with pytest.raises(RegionSilent, match="ap-south"):  # nobody else can say that it is not there
        await serving.get(there.task_id)
    for _ in range(3):  # it comes back under its name, and knows its tasks
        file.say(ALL)
        await reload(serving)
        assert (await serving.get(there.task_id)).region == "ap-south"
        file.say(BOTH)
        await reload(serving)

    over.set()
    await asyncio.gather(*submitting)
    assert failures == []
    assert "eu-west" in regions_seen <= {*BOTH}


async def test_a_submit_under_way_ends_in_the_region_that_leaves(
    serving: Running, file: File
) -> None:
    flaky = serving.stores["us-east"]
    pause = flaky.pause("enqueue", before=True)
    under_way = asyncio.create_task(serving.submit(pin_region="us-east", request_id="r-1"))
    await pause.reached.wait()
    file.say(("eu-west",), fence="eu")

    await reload(serving)

    assert not under_way.done()
    file.say(BOTH)
    await reload(serving)  # it is back, as a region of which nothing is known yet
    pause.over.set()
    assert (await under_way).region == "us-east"
    assert serving.gateway.census.view("us-east").in_flight == 0


BAD = {
    "broken syntax": ("version: [", r"regions\.yaml:2:1"),
    "an unknown key": ("version: 1\nregiones: {}\n", r"regions\.yaml:2:1: regiones"),
    "nothing": ("", "regions.yaml"),
    "other partitions": ("", "partitions: 64, and the data in force has 16"),
    "without us": ("", "regions: eu-west is missing"),
}


@pytest.mark.parametrize(("text", "says"), BAD.values(), ids=BAD)
async def test_a_bad_file_changes_nothing_and_says_where_it_is_wrong(
    serving: Running, file: File, text: str, says: str, request: pytest.FixtureRequest
) -> None:
    before = (await serving.explain()).policy_version
    good = file.path.read_text()
    by_hand = {
        "other partitions": good.replace("partitions: 16\n", ""),
        "without us": good.replace("eu-west", "eu-north"),
    }
    file.path.write_text(by_hand.get(request.node.callspec.id, text))

    with pytest.raises(PolicyRefused, match=says) as refused:
        await reload(serving)

    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
    assert (await serving.explain()).policy_version == before
    assert (await serving.submit(labels=PERSONAL, pin_region="us-east")).region == "us-east"


async def test_a_region_at_another_address_is_met_there(
    serving: Running, file: File, fleet: Fleet
) -> None:
    """Under another name for the same server: what it held is found there."""
    old = await serving.submit(pin_region="us-east")
    text = file.path.read_text()
    address = fleet.regions["us-east"].redis.nodes[0]
    file.path.write_text(text.replace(address, address.replace("127.0.0.1", "localhost")))
    before = serving.gateway.stores["us-east"]

    await reload(serving)

    assert serving.gateway.stores["us-east"] is not before
    assert serving.gateway.stores["eu-west"] is serving.stores["eu-west"]
    assert (await serving.get(old.task_id)).region == "us-east"
    assert (await serving.insist(pin_region="us-east")).region == "us-east"
    assert regions.load(file.path).regions["us-east"].redis.nodes != (address,)
