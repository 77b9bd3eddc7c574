"""Handlers whose starts and ends the ledger judges."""

import asyncio
import hashlib

from tests.harness.ledger import note
from tradewind import App, Context

app = App()


@app.task("sleep")
async def sleep(ctx: Context, seconds: float = 0.0) -> str:
    note("start", ctx)
    await asyncio.sleep(seconds)
    note("done", ctx)
    return ctx.region


@app.task("slow")
async def slow(ctx: Context, seconds: float) -> str:
    """As `sleep`, by a name that no other test uses: nobody has timed it."""
    note("start", ctx)
    await asyncio.sleep(seconds)
    note("done", ctx)
    return ctx.region


@app.task("odd/name:v-1.0_x")
async def oddly_named(ctx: Context) -> str:
    note("start", ctx)
    note("done", ctx)
    return ctx.region


@app.task("echo")
async def echo(ctx: Context, value: object) -> object:
    """Give back what it was given."""
    note("start", ctx)
    note("done", ctx)
    return value


@app.task("fail.in")
async def fail_in(ctx: Context, regions: list[str], said: str = "the dependency is down") -> str:
    """Fail where its dependency is broken, and say so."""
    note("start", ctx)
    await asyncio.sleep(0)
    if ctx.region in regions:
        raise RuntimeError(said)
    note("done", ctx)
    return ctx.region


@app.task("numbered")
async def numbered(ctx: Context, number: int, seconds: float) -> int:
    """As `sleep`, each with a payload of its own."""
    note("start", ctx)
    await asyncio.sleep(seconds)
    note("done", ctx)
    return number


@app.task("numbered.fail.in")
async def numbered_fail_in(ctx: Context, number: int, regions: list[str]) -> int:
    note("start", ctx)
    await asyncio.sleep(0)
    if ctx.region in regions:
        raise RuntimeError("the dependency is down")
    note("done", ctx)
    return number


@app.task("digest")
async def digest(ctx: Context, body: bytes) -> str:
    """Tell which bytes arrived, whatever their content type."""
    note("start", ctx)
    note("done", ctx)
    return hashlib.sha256(body).hexdigest()


@app.task("quick")
async def quick(ctx: Context, number: int) -> int:
    note("done", ctx)
    return number


@app.task("fail.loudly", attempts=1)
async def fail_loudly(ctx: Context, number: int, size: int) -> None:
    """Fail for good, with a text that nobody wants to keep."""
    note("done", ctx)
    raise RuntimeError(f"{number} " + "x" * size)
