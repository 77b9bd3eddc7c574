"""Says that a task was stored which nothing runs: most often its name is misspelt."""

from typing import TYPE_CHECKING

import click

from tradewind.cli.text import one_line
from tradewind.errors import TradewindError
from tradewind.policy.rules import UNSERVED

if TYPE_CHECKING:
    from tradewind.client import Client

__all__ = ["UNSERVED", "warn_unserved"]

_NAMED = 8  # handlers that are listed


async def warn_unserved(client: "Client", name: str, queue: str) -> None:
    """Warn on stderr, and name what live workers do run in that queue."""
    try:
        workers, _ = await client.admin.workers()
    except TradewindError:  # the list is an extra: the task is stored whether or not it comes
        workers = []
    known = sorted(
        {each for worker in workers if queue in worker.queues for each in worker.handlers}
    )
    listed = ", ".join(known[:_NAMED]) + (", ..." if len(known) > _NAMED else "")
    runs = f"workers there run {listed}" if known else "no live worker takes tasks from that queue"
    said = (
        f"no live worker runs {name!r} in queue {queue} ({runs}); the task is kept and waits "
        "until one does"
    )
    click.echo(f"Warning: {one_line(said)}.", err=True)
