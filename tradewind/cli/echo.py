"""The app that `tradewind up` runs when it is given none: something to submit to."""

import asyncio
from typing import Any

from tradewind.handlers import App, Context, Reject

app = App()


@app.task("echo")
async def echo(ctx: Context, **said: Any) -> dict[str, Any]:
    """Return what was sent, and where it ran."""
    return {**said, "region": ctx.region, "attempt": ctx.attempt}


@app.task("sleep")
async def sleep(ctx: Context, seconds: float = 1.0) -> dict[str, Any]:
    """Take a while."""
    await asyncio.sleep(seconds)
    return {"slept": seconds, "region": ctx.region}


@app.task("fail")
async def fail(message: str = "as asked", reject: bool = False) -> None:  # noqa: FBT001, FBT002
    """Fail: retried, then dead-lettered and moved; with `reject` dead-lettered at once."""
    if reject:
        raise Reject(message)
    raise RuntimeError(message)
