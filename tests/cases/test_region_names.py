"""Case C45: regions whose names YAML 1.1 takes for booleans."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cases.conftest import APP
from tests.harness.ledger import Ledger
from tests.harness.yard import Yard, yard
from tradewind import Client
from tradewind.errors import InvalidTask
from tradewind.state import State

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMES = ["no", "se", "on"]
UNQUOTED = """\
version: 1
partitions: 16
regions:
  no: {redis: redis://127.0.0.1:6401, residency: [no]}
  se: {redis: redis://127.0.0.1:6402, residency: [se, y]}
  on: {redis: redis://127.0.0.1:6403, residency: [on]}
rtt:
  no: {se: 10ms, on: 100ms}
  se: {on: 100ms}
rules:
  - {name: yes, match: {tenants: [off]}, residency: [no]}
  - {name: n, match: {names: [y]}, prefer: [on]}
failover: {order: {no: [se], on: [no]}}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def nordic(tmp_path_factory: pytest.TempPathFactory, ledger: Ledger) -> AsyncIterator[Yard]:
    home = tmp_path_factory.mktemp("nordic")
    async with yard(home, UNQUOTED, APP, ledger) as running:
        yield running


async def check(path: Path) -> tuple[int, str, str]:
    """`tradewind policy check`: exit code, stdout, stderr."""
    command = [sys.executable, "-m", "tradewind.cli.main", "policy", "check", "--json", str(path)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_c45_policy_check_reads_the_names_as_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "regions.yaml"
    file.write_text(UNQUOTED)
    code, out, _ = await check(file)
    assert code == 0
    assert json.loads(out)["regions"] == NAMES
    assert json.loads(out)["rules"] == ["yes", "n"]


async def test_c45_no_and_NO_are_never_merged(tmp_path: Path) -> None:
    file = tmp_path / "regions.yaml"
    file.write_text(
        "version: 1\n"
        "regions:\n"
        "  no: {redis: redis://127.0.0.1:6401}\n"
        "  NO: {redis: redis://127.0.0.1:6402}\n"
        "  False: {redis: redis://127.0.0.1:6403}\n"
    )
    code, out, _ = await check(file)
    said = json.loads(out)
    if code == 0:
        assert said["regions"] == ["no", "NO", "False"]
    else:  # a file may be refused, with the place
        assert code == 2
        assert (said["errors"][0]["line"], said["errors"][0]["column"]) == (4, 3)


async def test_c45_tasks_for_no_go_to_no(nordic: Yard, ledger: Ledger) -> None:
    async with nordic.client("se") as client:
        regions, _ = await client.admin.regions()
        assert [region.name for region in regions] == NAMES
        for wish, region in {
            "residency": ("no", "no"),
            "pin": ("no", "no"),
            "on": ("on", "on"),
            "y": ("y", "se"),
        }.items():
            asked, expected = region
            receipt = await (
                client.submit("sleep", pin_region=asked)
                if wish == "pin"
                else client.submit("sleep", residency=[asked])
            )
            task = await client.wait(receipt.task_id, timeout=30)
            assert (receipt.region, task.region, task.state) == (
                expected,
                expected,
                State.COMPLETED,
            )
            assert ledger.regions(receipt.task_id) == [expected]
        ruled = await client.submit("sleep", tenant="off")
        assert (ruled.region, ruled.rule) == ("no", "yes")
        await refused(client, "residency", residency=["False"])
        await refused(client, "residency", residency=["NO"])
        await refused(client, "pin_region", pin_region="False")


async def refused(client: Client, field: str, **options: object) -> None:
    with pytest.raises(InvalidTask) as refusal:
        await client.submit("sleep", **options)  # pyright: ignore[reportArgumentType]
    assert [violation.field for violation in refusal.value.violations] == [field]
