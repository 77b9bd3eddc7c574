"""An app whose only work is to note when it started, outside the product."""

import asyncio
import os
import struct
import time
from functools import cache

from tradewind import App

LEDGER_ENV = "TRADEWIND_BENCH_LEDGER"
ENTRY = struct.Struct("<Qd")  # number of the task, monotonic seconds (one clock for all processes)

app = App()


@cache
def _ledger() -> int:
    return os.open(os.environ[LEDGER_ENV], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


@app.task("bench.mark")
async def mark(number: int) -> None:
    """Note the time; a microsecond of work besides."""
    os.write(_ledger(), ENTRY.pack(number, time.perf_counter()))


@app.task("bench.hold", timeout=600)
async def hold() -> None:
    """Keep a slot until it is cancelled."""
    await asyncio.Event().wait()
