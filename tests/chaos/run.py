"""One run: a place, a load, faults, and all that is seen of them from outside."""

import asyncio
import json
import random
import time
import uuid
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from tests.chaos import after
from tests.chaos.faults import strikes
from tests.chaos.history import History, Line
from tests.chaos.load import Ends, Load
from tests.chaos.load_plan import Kind, operations
from tests.chaos.nemesis import Nemesis, possible
from tests.chaos.place import REGIONS, ROUTERS, Place, place
from tradewind import Client

PER_S: Final = 12.0  # submits: six worker processes of one machine are half busy with them
CALM_S: Final = 10.0  # of load after the last fault
SETTLES_S: Final = 120.0  # until everything has come to rest, before it is called stuck
AGREE_S: Final = 20.0


async def run(seed: int, length_s: float, home: Path, tree: Path) -> tuple[History, list[str]]:
    """Run `length_s` of load. Also gives what could not be done, in words.

    Raises LocalSetupError if a region is not whole after the last fault: that run shows nothing.
    """
    dice = random.Random(f"place {seed}")
    (home / "ledger.jsonl").parent.mkdir(parents=True, exist_ok=True)
    (home / "ledger.jsonl").touch()
    async with place(home, dice, tree) as world:
        return await _run(world, seed, length_s, home)


async def _run(world: Place, seed: int, length_s: float, home: Path) -> tuple[History, list[str]]:
    drawn = operations(seed, length_s, PER_S, list(REGIONS), len(ROUTERS))
    planned = strikes(seed, length_s - CALM_S, possible())
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(Client(address, deadline=20.0))
            for address in world.addresses
        ]
        load, ends = Load(drawn, clients, uuid.uuid4().hex[:12]), Ends(clients)
        nemesis = Nemesis(world, clients[0])
        looking = asyncio.create_task(ends.look(load, random.Random(seed)))
        playing = asyncio.create_task(load.play())
        await nemesis.play(planned)
        healed_at = time.monotonic()
        await asyncio.gather(*map(world.whole, REGIONS))
        await playing
        looking.cancel()
        ids = sorted({told.task_id for told in load.told if told.task_id})
        await ends.settled(ids, SETTLES_S)
        found = await ends.agreed(ids, AGREE_S)
        fenced = [one.number for one in drawn if one.kind is Kind.FENCED]
        history = History(
            operations=drawn,
            told=load.told,
            lines=_lines(home / "ledger.jsonl"),
            struck=nemesis.struck,
            ends=found,
            first_seen=ends.first_seen,
            owners=await after.owners(world),
            marks=await after.marked(world, home, {n: load.marker(n) for n in fenced}),
            untidy=await after.untidy(world),
            healed_at=healed_at,
        )
        return history, nemesis.failed


def _lines(path: Path) -> list[Line]:
    whole = path.read_text().rpartition("\n")[0]
    return [Line(**json.loads(text)) for text in whole.splitlines()]
