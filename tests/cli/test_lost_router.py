"""What is said while a command looks for its router."""

import asyncio

import pytest

from tests.cli.conftest import Run
from tests.harness.heldback import held_back
from tests.harness.patience import until
from tests.rpc import labour
from tests.rpc.running import running
from tradewind.fleet import Fleet


async def test_who_waits_for_a_task_is_told_once_that_the_router_is_lost(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving, held_back(serving.server.address, 0) as way:
        await serving.staff(handlers=("email.send",))
        command = ("submit", "email.send", "{}", "--wait", "--router", way.address)
        waiting = asyncio.create_task(asyncio.to_thread(run, *command))
        said = ""
        while " in eu-west" not in said:  # its receipt
            await asyncio.sleep(0.01)
            said += capsys.readouterr().err
        task_id = said.split()[0]

        way.is_down = True
        way.cut()
        await until(lambda: way.turned_away >= 3, "it is looked for more than once")
        way.is_down = False
        store = serving.stores["eu-west"]
        await labour.finish(store, await labour.claim(store, task_id), b'{"sent": 1}')

        assert await waiting == 0
        heard = capsys.readouterr()
    assert "sent" in heard.out
    said += heard.err
    assert said.count("Lost the router at") == 1
    assert f"{way.address}; looking for it for up to 30 s." in said
