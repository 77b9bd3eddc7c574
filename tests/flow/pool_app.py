"""Handlers that do to their pool of processes what handlers should not."""

import asyncio
import contextlib
import os
import stat
import subprocess
import time
from pathlib import Path

from tests.flow.ledger_app import note
from tradewind import App, Context

app = App()


def pipes() -> list[int]:
    """The pipes that lead out of this process: of its own, such as libuv's, it has both ends."""
    ends: dict[str, list[int]] = {}
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the listing
            if stat.S_ISFIFO(os.fstat(int(file.name)).st_mode):
                ends.setdefault(str(file.readlink()), []).append(int(file.name))
    return [numbers[0] for numbers in ends.values() if len(numbers) == 1]


@app.task("start.sleeper")
def start_sleeper(ctx: Context) -> list[int]:
    """A program in the background that has every file it can have."""
    sleeper = subprocess.Popen(["/bin/sleep", "300"], close_fds=False, start_new_session=True)
    return [os.getpid(), sleeper.pid]


@app.task("fork.sleeper")
def fork_sleeper(ctx: Context) -> list[int]:
    """A copy of this process, which has even those that no program inherits."""
    child = os.fork()
    if child == 0:
        time.sleep(300)
        os._exit(0)
    return [os.getpid(), child]


@app.task("write.everywhere")
def write_everywhere(ctx: Context, size: int) -> int:
    """Into every pipe, as a handler does that confuses its file descriptors."""
    for number in pipes():
        with contextlib.suppress(OSError):  # the end to read from
            os.set_blocking(number, True)
            os.write(number, b"x" * size)
    return os.getpid()


@app.task("hold.loop")
async def hold_loop(ctx: Context) -> None:
    """What no coroutine may do: the event loop stands still for ever."""
    note("start", ctx)
    while True:
        time.sleep(0.05)  # noqa: ASYNC251 - that is the fault under test


@app.task("sleep")
async def sleep(ctx: Context, seconds: float) -> int:
    note("start", ctx)
    await asyncio.sleep(seconds)
    note("done", ctx)
    return os.getpid()
