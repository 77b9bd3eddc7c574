"""Handlers whose starts and ends are judged by a file that the product does not know."""

import asyncio
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tradewind import App, Context, Retry

app = App()
LEDGER = Path(os.environ["LEDGER"])


def note(event: str, ctx: Context) -> None:
    line = json.dumps(
        {
            "event": event,
            "task_id": ctx.task_id,
            "attempt": ctx.attempt,
            "region": ctx.region,
            "pid": os.getpid(),
            "at": time.monotonic(),
            "worker": os.environ.get("LAB_WORKER", ""),
        }
    )
    with LEDGER.open("a") as file:  # O_APPEND: lines of several processes never mix
        file.write(line + "\n")


@app.task("sleep")
async def sleep(ctx: Context, seconds: float) -> int:
    note("start", ctx)
    await asyncio.sleep(seconds)
    note("done", ctx)
    return os.getpid()


@app.task("block")
async def block(ctx: Context, seconds: float) -> int:
    """What no coroutine should do: the event loop stands still."""
    note("start", ctx)
    time.sleep(seconds)  # noqa: ASYNC251 - that is the fault under test
    note("done", ctx)
    return os.getpid()


@app.task("burn")
async def burn(ctx: Context, seconds: float) -> int:
    """The same, holding the interpreter as well."""
    note("start", ctx)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))
    note("done", ctx)
    return os.getpid()


@app.task("thread")
def thread(ctx: Context, seconds: float) -> int:
    note("start", ctx)
    time.sleep(seconds)
    note("done", ctx)
    return os.getpid()


@app.task("thread.looks")
def thread_looks(ctx: Context, seconds: float) -> int:
    """What a plain function should do: look whether it is to stop."""
    note("start", ctx)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if ctx.cancelled:
            note("stopped", ctx)
            return 0
        time.sleep(0.005)
    note("done", ctx)
    return os.getpid()


@app.task("sleep.tidily")
async def sleep_tidily(ctx: Context, seconds: float) -> int:
    """Needs a while to stop."""
    note("start", ctx)
    try:
        await asyncio.sleep(seconds)
    finally:
        await asyncio.sleep(0.1)
        note("stopped", ctx)
    return os.getpid()


@app.task("report.async")
async def report_async(ctx: Context, reports: int, seconds: float) -> int:
    """Says far more than anybody wants to know, then nothing for a while, then the last word."""
    note("start", ctx)
    for index in range(reports):
        await ctx.progress(index / reports, f"step {index}")
    await asyncio.sleep(seconds)
    await ctx.progress(0.99, "almost")
    await asyncio.sleep(0.02)
    await ctx.progress(1, "done \udcff")
    return reports


@app.task("report.plain")
def report_plain(ctx: Context, reports: int, seconds: float) -> int:
    note("start", ctx)
    for index in range(reports):
        ctx.progress(index / reports, f"step {index}")
    time.sleep(seconds)
    ctx.progress(0.99, "almost")
    time.sleep(0.02)
    ctx.progress(1, "done \udcff")
    return reports


@app.task("sleep.then.fail", attempts=3)
async def sleep_then_fail(ctx: Context, seconds: float) -> None:
    note("start", ctx)
    await asyncio.sleep(seconds)
    note("done", ctx)
    raise RuntimeError("as asked")


@app.task("return.too.much")
async def return_too_much(ctx: Context) -> bytes:
    note("start", ctx)
    return bytes(300 * 1024)


@app.task("fail.in")
async def fail_in(ctx: Context, regions: list[str]) -> str:
    """Fails where its dependency is broken."""
    note("start", ctx)
    if ctx.region in regions:
        raise RuntimeError("the dependency is down")
    note("done", ctx)
    return ctx.region


@app.task("sleep.first.fails")
async def sleep_first_fails(ctx: Context, seconds: float) -> int:
    """Whoever starts it first ends with an error."""
    is_first = ctx.task_id not in LEDGER.read_text()  # noqa: ASYNC240 - a few lines
    note("start", ctx)
    await asyncio.sleep(seconds)
    note("done", ctx)
    if is_first:
        raise RuntimeError("the first one fails")
    return os.getpid()


@app.task("thread.then.fail")
def thread_then_fail(ctx: Context, seconds: float) -> None:
    note("start", ctx)
    time.sleep(seconds)
    note("done", ctx)
    raise RuntimeError("as asked")


@app.task("thread.first.sleeps")
def thread_first_sleeps(ctx: Context, seconds: float) -> int:
    """Whoever starts it first takes its time."""
    is_first = ctx.task_id not in LEDGER.read_text()
    note("start", ctx)
    time.sleep(seconds if is_first else 0)
    return os.getpid()


@app.task("thread.in.a.pool")
def thread_in_a_pool(ctx: Context, seconds: float) -> None:
    """Waits for threads of its own, which the interpreter waits for at its end."""
    note("start", ctx)
    with ThreadPoolExecutor() as pool:
        pool.submit(time.sleep, seconds)


_answered: list[float] = []  # when the dependency last answered, this process's clock


@app.task("depends")
async def depends(ctx: Context, opens_at: float, per_s: float, ask_s: float) -> int:
    """Needs a dependency that is down until `opens_at`, then answers so many calls a second.

    `ask_s` > 0: it says when to come again.
    """
    note("start", ctx)
    await asyncio.sleep(0)
    now_s = time.monotonic()
    _answered[:] = [at_s for at_s in _answered if at_s > now_s - 1]
    if now_s < opens_at or len(_answered) >= per_s:
        if ask_s:
            raise Retry(after=ask_s)
        raise RuntimeError("the dependency is down")
    _answered.append(now_s)
    note("done", ctx)
    return os.getpid()


@app.task("first.sleeps")
async def first_sleeps(ctx: Context, seconds: float) -> int:
    """Whoever starts it first takes long; the next one does not."""
    is_first = ctx.task_id not in LEDGER.read_text()  # noqa: ASYNC240 - a few lines
    note("start", ctx)
    await asyncio.sleep(seconds if is_first else 0)
    note("done", ctx)
    return os.getpid()


@app.task("first.sleeps.plain")
def first_sleeps_plain(ctx: Context, seconds: float) -> int:
    is_first = ctx.task_id not in LEDGER.read_text()
    note("start", ctx)
    time.sleep(seconds if is_first else 0)
    note("done", ctx)
    return os.getpid()


@app.task("hold.until.told")
async def hold_until_told(ctx: Context) -> int:
    """Holds the event loop until the test lets it go."""
    note("start", ctx)
    while not LEDGER.with_suffix(".told").exists():
        time.sleep(0.05)  # noqa: ASYNC251 - that is what it is for
    return ctx.attempt


@app.task("until.told")
async def until_told(ctx: Context, seconds: float) -> int:
    """Ends when the test says so (`Lab.tell`), after `seconds` at the earliest."""
    note("start", ctx)
    await asyncio.sleep(seconds)
    while not LEDGER.with_suffix(".told").exists():  # noqa: ASYNC110 - another process's
        await asyncio.sleep(0.02)
    note("done", ctx)
    return os.getpid()
