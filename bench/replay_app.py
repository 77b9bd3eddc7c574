"""The handler of the replay: takes as long as the trace says, and writes what it did to a ledger.

The ledger is outside Redis on purpose: it would show a task that ran twice, or not at all.
"""

import asyncio
import os
import time

from tradewind import App, Context

LEDGER_VARIABLE = "TRADEWIND_REPLAY_LEDGER"

app = App()


@app.task("llm.generate")
async def generate(ctx: Context, arrival: int, seconds: float) -> None:
    """Hold a slot for the service time, then record the run as one appended line."""
    started_ns = time.monotonic_ns()  # one clock for every process of this machine
    await asyncio.sleep(seconds)
    line = f"{arrival} {ctx.task_id} {ctx.region} {ctx.attempt} {started_ns}\n"
    ledger = os.open(os.environ[LEDGER_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(ledger, line.encode())  # one write of a short line: appends do not mix
    finally:
        os.close(ledger)
