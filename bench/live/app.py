"""The handler: takes as long as it is told, and writes to a ledger where it was started.

The ledger is outside the product on purpose: it shows a task that crossed its fence, ran twice or
was lost, whatever the product says.
"""

import asyncio
import os
import time

from tradewind import App, Context

LEDGER_VARIABLE = "TRADEWIND_LIVE_LEDGER"
HANDLER = "live.task"

app = App()


@app.task(HANDLER)
async def task(ctx: Context, index: int, seconds: float) -> None:
    """Record the start as one appended line, then hold a slot for the service time."""
    line = f"{index} {ctx.task_id} {ctx.region} {time.monotonic_ns()}\n"
    ledger = os.open(os.environ[LEDGER_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(ledger, line.encode())  # one write of a short line: appends do not mix
    finally:
        os.close(ledger)
    await asyncio.sleep(seconds)
