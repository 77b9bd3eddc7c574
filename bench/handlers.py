"""The app of the measurements. Its handlers only leave a record outside the product, or wait."""

import asyncio
from functools import cache

from bench.rig.records import Recorder
from tradewind import App

app = App()


@cache
def _record() -> Recorder:
    return Recorder()


@app.task("bench.noop", timeout=30)
async def noop(text: str, at: float = 0.0) -> str:  # noqa: ARG001 - what it is given is checked
    """Nothing but the record. Its result is kept."""
    _record()(at)
    return "done"


@app.task("bench.paced", timeout=30)
async def paced(text: str, at: float = 0.0) -> str:  # noqa: ARG001
    """Hold a slot for 20 ms without using the CPU: slots are the limit, not the cores."""
    _record()(at)
    await asyncio.sleep(0.02)
    return "done"


@app.task("bench.hold", timeout=3600)
async def hold(text: str, at: float = 0.0) -> None:  # noqa: ARG001
    """Hold a slot until the worker ends."""
    _record()(at)
    await asyncio.Event().wait()
