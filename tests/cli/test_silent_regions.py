"""What is said of regions that do not answer, or are down, and when."""

import asyncio
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_real_router import tradewind
from tests.rpc.running import running
from tradewind.cli.session import slow
from tradewind.errors import StoreContractBroken, StoreUnavailable
from tradewind.fleet import Fleet

GONE = StoreUnavailable("eu-west", "connection refused", sent=False)
BROKEN = StoreContractBroken("foreign data")


@pytest.mark.parametrize("command", [("get",), ("cancel",), ("dlq", "show")], ids=" ".join)
async def test_a_look_at_a_task_names_the_region_that_is_silent_and_what_to_do(
    run: Run,
    fleet: Fleet,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    monkeypatch.setattr("tradewind.client.core.SILENCE_S", 0.0)
    async with running(fleet) as serving:
        task_id = (await serving.submit()).task_id
        serving.stores["eu-west"].fail("read", GONE)
        assert await tradewind(run, serving, *command, task_id) != 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "Error: no answer from region eu-west: what it holds is kept there and goes on once it is "
        "back; ask again then (`tradewind regions` tells)\n"
    )


@pytest.mark.parametrize("is_told", [False, True])
async def test_a_router_is_not_blamed_once_the_region_was(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_told: bool
) -> None:
    monkeypatch.setattr("tradewind.cli.session._QUIET_S", 0.0)
    async with slow("Still waiting for the router.", unless=lambda: is_told):
        await asyncio.sleep(0.01)
    assert capsys.readouterr().err == ("" if is_told else "Still waiting for the router.\n")


async def test_tasks_that_wait_for_their_only_region_say_so_and_why_once(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"name": "email.send", "residency": ["eu"]}\n' * 3)
    async with running(fleet) as serving:
        await serving.staff()
        serving.stores["eu-west"].fail("enqueue", BROKEN)  # of all three: they go together
        assert await tradewind(run, serving, "submit", "--from", str(tasks)) == 0
    said = capsys.readouterr()
    assert "3 of 3 accepted" in said.out
    assert said.err == (
        "Asking again for up to 30 s: no permitted region can take the task now "
        "(eu-west: down); retry later.\n"
    )
