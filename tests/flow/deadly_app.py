"""The ledger's app in a worker that kills itself, by SIGKILL, at one step of a move.

DIE says where: "before STEP", "amid STEP" (sent, perhaps not answered) or "after STEP"; a step of a
seal is "seal STEP", as in tests/moves. FULL, if it is set, is a port: the Redis there has no memory
left once an import is sent to it.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from tests.flow.ledger_app import app
from tests.redis_keys import connected
from tradewind.store.moves import MoveRole
from tradewind.store.region_client import RegionClient

__all__ = ["app"]
WHEN, _, WHERE = os.environ["DIE"].partition(" ")
FULL = os.environ.get("FULL", "")
TURNS = 4  # of the event loop: what is to be sent has left by then

_last: dict[str, str] = {}  # step that was answered, by region


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def takes(step: str, send: Callable[[], Awaitable[Any]]) -> Any:
    if step != WHERE:
        return await send()
    if WHEN == "before":
        die()
    sent = asyncio.ensure_future(send())
    if WHEN == "amid":
        for _ in range(TURNS):
            await asyncio.sleep(0)
        die()
    try:
        return await sent
    finally:
        die()


def wrap(client_kind: Any, role_kind: Any) -> None:
    run, seal = client_kind.run, role_kind.seal

    async def run_or_die(client: RegionClient, call: Any, **kwargs: Any) -> Any:
        step = call.script.name
        if FULL and step == "import_task":
            connected(int(FULL)).config_set("maxmemory", 1)
        reply = await takes(step, lambda: run(client, call, **kwargs))
        _last[client.name] = step
        return reply

    async def seal_or_die(role: Any, partition: int) -> bool:
        step = _last.get(role.region, "")
        return await takes(f"seal {step}", lambda: seal(role, partition))

    client_kind.run, role_kind.seal = run_or_die, seal_or_die


wrap(RegionClient, MoveRole)
