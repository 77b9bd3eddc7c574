"""A handler whose result tells which of its runs it is from."""

import asyncio
import os

from tests.harness.ledger import note
from tradewind import App, Context

app = App()


@app.task("work")
async def work(
    ctx: Context, number: int, seconds: float, broken_in: str = "", said: str = ""
) -> list[str | int]:
    """Take a while, and fail in the region where it is broken. Either way `said` is said again."""
    note("start", ctx)
    await asyncio.sleep(seconds)
    if ctx.region == broken_in:
        raise RuntimeError(f"{number}: the dependency is down. {said}")
    note("done", ctx)
    return [ctx.region, ctx.attempt, os.getpid(), said]
