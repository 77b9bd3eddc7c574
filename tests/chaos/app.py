"""Handlers of a run. What they do goes to a ledger that the product does not know."""

import asyncio
import json
import os
import time
from pathlib import Path

from tradewind import App, Context

LEDGER = "CHAOS_LEDGER"  # names the file

app = App()


@app.task("work")
async def work(
    ctx: Context,
    number: int,
    seconds: float,
    broken_in: str = "",
    fails: int = 0,
    said: str = "",
) -> list[str | int]:
    """Take a while, and fail in the region where it is broken, or the first few times."""
    note("start", number, ctx)
    await asyncio.sleep(seconds)
    if ctx.region == broken_in or ctx.attempt <= fails:
        note("failed", number, ctx)
        raise RuntimeError(f"{number} fails. {said}")
    note("done", number, ctx)
    return [ctx.region, ctx.attempt, os.getpid()]


def note(event: str, number: int, ctx: Context) -> None:
    """Write a line: what history.Line has."""
    entry = {
        "event": event,
        "number": number,
        "task_id": ctx.task_id,
        "attempt": ctx.attempt,
        "token": ctx.fencing_token,
        "region": ctx.region,
        "pid": os.getpid(),
        "at": time.monotonic(),
    }
    # O_APPEND and one write: lines of several processes never mix.
    with Path(os.environ[LEDGER]).open("a") as file:
        file.write(json.dumps(entry) + "\n")
