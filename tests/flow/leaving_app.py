"""Handlers that leave programs and copies of their process behind; judged by the ledger."""

import os
import re
import subprocess
import sys
import time

from tests.harness.ledger import note
from tradewind import App, Context

app = App()


class NoFlush:
    """What some put in the place of stdout."""

    def write(self, text: str) -> int:
        return len(text)


if os.environ.get("ODD_STDOUT"):
    sys.stdout = NoFlush()


@app.task("program", isolate=True)
def program(ctx: Context, how: str) -> int:
    """Starts a program, whose pid it says as its progress, and goes on or not."""
    pid = subprocess.Popen(["/bin/sleep", "60"]).pid
    ctx.progress(0.5, str(pid))
    note("start", ctx)
    match how:
        case "hold":  # never lets go of the interpreter
            re.match(r"(a+)+$", "a" * 64 + "b")
        case "sleep":
            time.sleep(60)
        case _:
            pass
    return pid


@app.task("copy")
def copy(ctx: Context) -> int:
    """Leaves a copy of the worker behind, which holds all that the worker has open."""
    if (pid := os.fork()) == 0:
        time.sleep(60)
        os._exit(0)
    note("start", ctx)
    return pid


@app.task("fork")
async def fork(ctx: Context) -> int:
    """In the worker's loop. Says the status that its copy has ended with."""
    note("start", ctx)
    if (pid := os.fork()) == 0:
        sys.exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])  # noqa: ASYNC222 - a moment


@app.task("stuck", timeout=0.2)
def stuck(ctx: Context) -> None:
    note("start", ctx)
    time.sleep(60)
