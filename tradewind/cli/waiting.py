"""Waiting for a task on the command line: with a limit, and without losing it from sight."""

import asyncio
import math
import time
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


class Patience:
    """How long a command may take: `limit`, from now on; None: as long as it takes."""

    def __init__(self, limit: timedelta | None) -> None:
        """It begins."""
        self.limit_s = math.inf if limit is None else limit.total_seconds()
        self._until_s = time.monotonic() + self.limit_s

    @property
    def is_limited(self) -> bool:
        """Whether it ends."""
        return self.limit_s < math.inf

    def left_s(self) -> float:
        """What is left of it, infinite without a limit."""
        return max(0.0, self._until_s - time.monotonic())


@asynccontextmanager
async def waiting_for(task_id: str, patience: Patience) -> AsyncGenerator[None]:
    """Wait within the block while there is patience; who ends it is told that the task goes on.

    Raises Failed once it is over.
    """
    over = asyncio.timeout(patience.left_s() if patience.is_limited else None)
    try:
        async with over:
            yield
    except TimeoutError:
        if not over.expired():
            raise
        said = f"task {task_id} did not end within {patience.limit_s:g} s; {goes_on(task_id)}."
        raise Failed(said) from None
    except asyncio.CancelledError:  # Ctrl-C
        click.echo(f"Stopped waiting for task {task_id}; {goes_on(task_id)}.", err=True)
        raise


def goes_on(task_id: str) -> str:
    """Say what becomes of a task that nobody waits for any more, and what may be done."""
    return (
        f"it is kept and goes on: `tradewind watch {task_id}` waits on, "
        f"`tradewind cancel {task_id}` ends it"
    )
