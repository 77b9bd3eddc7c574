"""Waiting for a task on the command line: with a limit, and without losing it from sight."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

import click

from tradewind.cli.outcome import Failed
from tradewind.cli.session import Duration

F = TypeVar("F", bound=Callable[..., Any])


def wait_timeout_option(said: str) -> Callable[[F], F]:
    """Add --wait-timeout; `said` is what it does."""
    return click.option(
        "--wait-timeout", type=Duration(), help=f"{said} [default: none, wait until it ends]."
    )


@asynccontextmanager
async def waiting_for(task_id: str, limit: timedelta | None) -> AsyncGenerator[None]:
    """Wait within the block for at most `limit`; whoever ends it is told that the task goes on.

    Raises Failed once the limit is over.
    """
    limit_s = None if limit is None else limit.total_seconds()
    over = asyncio.timeout(limit_s)
    try:
        async with over:
            yield
    except TimeoutError:
        if limit_s is None or not over.expired():
            raise
        raise Failed(f"task {task_id} did not end within {limit_s:g} s; {goes_on(task_id)}.") from (
            None
        )
    except asyncio.CancelledError:  # Ctrl-C
        click.echo(f"Stopped waiting for task {task_id}; {goes_on(task_id)}.", err=True)
        raise


def goes_on(task_id: str) -> str:
    """Say what becomes of a task that nobody waits for any more, and what may be done."""
    return (
        f"it is kept and goes on: `tradewind watch {task_id}` waits on, "
        f"`tradewind cancel {task_id}` ends it"
    )
