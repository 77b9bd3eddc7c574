"""Handlers that take their process along, among some that do no harm."""

import asyncio
import os
import resource
import signal
import sys
import time
from pathlib import Path

from tests.harness.ledger import note
from tradewind import App, Context
from tradewind.limits import MIB

app = App()
IN_A_CHILD = sys.argv[0].endswith("child.py")
ROOM = 256 * MIB  # that a process has left once its limit is set
BLOCK = 16 * MIB


@app.task("good")
async def good(ctx: Context, seconds: float) -> None:
    note("start", ctx)
    await asyncio.sleep(seconds)
    note("done", ctx)


@app.task("poison.kill")
def kill(ctx: Context) -> None:
    note("start", ctx)
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


@app.task("poison.memory")
def memory(ctx: Context) -> None:
    """Allocates until there is no more, and ends as a C++ library does that gets none."""
    note("start", ctx)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    blocks: list[bytearray] = []
    try:
        while True:
            blocks.append(bytearray(BLOCK))
    except MemoryError:
        os.abort()


@app.task("poison.kill.all")
def kill_all(ctx: Context) -> None:
    """The worker, too, if this is only a child of it."""
    note("start", ctx)
    if IN_A_CHILD:
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
