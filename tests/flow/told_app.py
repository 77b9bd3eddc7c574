"""Handlers for tests of on_dead: one that dies, one that works, one that is told."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from tradewind import App, Context, Reject

app = App()
LEDGER = Path(os.environ["LEDGER"])


def note(event: str, ctx: Context, **facts: Any) -> None:
    line = {"event": event, "task_id": ctx.task_id, "attempt": ctx.attempt, "region": ctx.region}
    with LEDGER.open("a") as file:  # O_APPEND: lines of several processes never mix
        file.write(json.dumps({**line, "pid": os.getpid(), "at": 0.0, **facts}) + "\n")


@app.task("die")
async def die(ctx: Context, secret: str) -> None:
    note("start", ctx)
    raise Reject(f"no use: {secret}")


@app.task("fail")
async def fail(ctx: Context, secret: str) -> None:
    note("start", ctx)
    raise RuntimeError(secret)


@app.task("work")
async def work(ctx: Context, seconds: float = 0) -> str:
    note("start", ctx)
    await asyncio.sleep(seconds)
    note("done", ctx)
    return "done"


@app.task("tell")
async def tell(ctx: Context, dead: dict[str, Any]) -> str:
    note("start", ctx)
    return dead["task_id"]


@app.task("tell.badly")
async def tell_badly(ctx: Context, dead: dict[str, Any]) -> None:
    note("start", ctx)
    raise Reject("deaf")
