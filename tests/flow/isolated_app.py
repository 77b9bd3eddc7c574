"""Handlers that are killed, or kill; judged by the ledger."""

import os
import re
import signal
import sys
import time
from pathlib import Path

from tests.harness.ledger import VARIABLE, note
from tradewind import App, Context

app = App()
IN_A_CHILD = sys.argv[0].endswith("child.py")


def lines_of(ctx: Context) -> int:
    return Path(os.environ[VARIABLE]).read_text().count(ctx.task_id)


@app.task("apart.sleep", isolate=True)
def apart_sleep(ctx: Context, seconds: float) -> int:
    note("start", ctx)
    time.sleep(seconds)
    note("done", ctx)
    return os.getpid()


@app.task("apart.burn", isolate=True)
async def apart_burn(ctx: Context) -> None:
    note("start", ctx)
    while True:
        pass


@app.task("apart.hold", isolate=True)
def apart_hold(ctx: Context) -> None:
    """Never lets go of the interpreter: no other thread of its process runs meanwhile."""
    note("start", ctx)
    re.match(r"(a+)+$", "a" * 64 + "b")


@app.task("apart.report", isolate=True)
def apart_report(ctx: Context) -> None:
    note("start", ctx)
    ctx.progress(0.5, "half-way")
    time.sleep(60)


@app.task("apart.too.much", isolate=True)
def apart_too_much(ctx: Context) -> bytes:
    note("start", ctx)
    return bytes(300 * 1024)


@app.task("sleep")
def sleep(ctx: Context, seconds: float) -> int:
    note("start", ctx)
    time.sleep(seconds)
    note("done", ctx)
    return os.getpid()


@app.task("kill.itself")
def kill_itself(ctx: Context, times: int = 1_000_000) -> int:
    """Takes its process along, the first `times` it runs."""
    is_first = lines_of(ctx) < times
    note("start", ctx)
    if is_first:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    note("done", ctx)
    return os.getpid()


@app.task("kill.its.parent")
def kill_its_parent(ctx: Context) -> None:
    """Takes the worker along, from a child of it, too."""
    note("start", ctx)
    if IN_A_CHILD:
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
