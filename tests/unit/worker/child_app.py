"""Handlers that child processes run: what they say of themselves comes back as their result."""

import asyncio
import contextlib
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tradewind import App, Context, Reject, Retry

STDERR = 2

app = App()


@app.task("t")
def t() -> None:
    """What tests of a runner have as a suspect."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


@app.task("fine", isolate=True)
async def fine(ctx: Context) -> dict[str, Any]:
    return {"pid": os.getpid(), "id": ctx.task_id, "attempt": ctx.attempt, "env": dict(os.environ)}


@app.task("plain", isolate=True)
def plain(ctx: Context, value: int) -> int:
    print("a word on stdout")
    ctx.log.info("a word in the log")
    return value


@app.task("ends", isolate=True)
def ends(ctx: Context, how: str) -> None:
    match how:
        case "retry":
            raise Retry(after=2, reason="no stock")
        case "reject":
            raise Reject("never")
        case "raise":
            raise ValueError("no such thing")
        case _:
            sys.exit(3)


@app.task("too.much", isolate=True)
def too_much() -> bytes:
    return bytes(300 * 1024)


@app.task("dies", isolate=True)
def dies(ctx: Context, signal_number: int = 0, status: int = 0) -> None:
    ctx.progress(0.5, "about to die")
    if signal_number:
        os.kill(os.getpid(), signal_number)
        time.sleep(60)
    os._exit(status)


@app.task("tells", isolate=True)
def tells(ctx: Context, times: int) -> int:
    for index in range(times):
        ctx.progress(index / times, f"step {index}")
    ctx.progress(1, "done")
    return times


@app.task("sleeps", isolate=True)
def sleeps(ctx: Context) -> None:
    ctx.progress(0.1, "asleep")
    time.sleep(60)


@app.task("sleeps.beside.a.program", isolate=True)
def sleeps_beside_a_program(ctx: Context, seconds: float) -> None:
    program = subprocess.Popen(["/bin/sleep", "60"])
    ctx.progress(0.1, str(program.pid))
    time.sleep(seconds)
    os._exit(1)


@app.task("burns", isolate=True)
def burns(ctx: Context) -> None:
    ctx.progress(0.1, "busy")
    while True:
        pass


@app.task("blocks", isolate=True)
async def blocks(ctx: Context) -> None:
    await ctx.progress(0.1, "blocking")
    time.sleep(60)  # noqa: ASYNC251 - that is the fault under test


@app.task("blocks.but.looks", isolate=True)
async def blocks_but_looks(ctx: Context) -> None:
    while not ctx.cancelled:
        time.sleep(0.001)  # noqa: ASYNC251 - the same


@app.task("looks", isolate=True)
async def looks(ctx: Context) -> str:
    """Stops as it should, in its own time."""
    await ctx.progress(0.1, "waiting")
    try:
        await asyncio.sleep(60)
    finally:
        await ctx.progress(0.2, "tidied up")
    return "never"


@app.task("returns.late", isolate=True)
async def returns_late(ctx: Context) -> str:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    return "done"


@app.task("doubts", isolate=True)
def doubts(ctx: Context) -> list[bool]:
    """What it sees of its lease, whenever that changes."""
    seen = [ctx.lease_doubtful]
    ctx.progress(0.1, "looking")
    while len(seen) < 3:
        if ctx.lease_doubtful != seen[-1]:
            seen.append(ctx.lease_doubtful)
            ctx.progress(0.1 * len(seen), "seen")
        time.sleep(0.001)
    return seen


@app.task("signalled", isolate=True)
def signalled(ctx: Context) -> str:
    """Told to end by somebody who is not the worker."""
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(0.05)
    return "still here"


def descriptors() -> list[int]:
    """All that are open: a process of many has handed on high ones."""
    return [int(each.name) for each in Path("/dev/fd").iterdir() if int(each.name) > STDERR]


def written(data: bytes) -> None:
    """Into every socket of this process."""
    for fd in descriptors():
        with contextlib.suppress(OSError):  # that of the list itself
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.write(fd, data)


@app.task("forges", isolate=True)
def forges(ctx: Context, data: str) -> None:
    """Speaks for its child."""
    written(bytes.fromhex(data))
    time.sleep(60)


@app.task("speaks.later", isolate=True)
def speaks_later(ctx: Context, data: str) -> int:
    """As a thread that was left behind, or a copy of the handler."""
    threading.Timer(0.1, written, [bytes.fromhex(data)]).start()
    return os.getpid()


@app.task("closes.all", isolate=True)
def closes_all(ctx: Context) -> None:
    os.closerange(STDERR + 1, max(descriptors()) + 1)
    time.sleep(60)


@app.task("leaves.a.program", isolate=True)
def leaves_a_program(ctx: Context) -> int:
    return subprocess.Popen(["/bin/sleep", "60"]).pid


def exit_status_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def end(how: str) -> None:
    match how:
        case "exit":
            sys.exit(3)
        case "raise":
            raise ValueError("in the copy")
        case _:
            pass


@app.task("forks", isolate=True)
def forks(ctx: Context, how: str) -> int | None:
    if (pid := os.fork()) == 0:
        return end(how)
    return exit_status_of(pid)


@app.task("forks.async", isolate=True)
async def forks_async(ctx: Context, how: str) -> int | None:
    never = asyncio.get_running_loop().create_future()
    if (pid := os.fork()) == 0:
        if how == "wait":
            await never
        return end(how)
    return exit_status_of(pid)
