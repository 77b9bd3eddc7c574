"""Says that nothing runs a task, or that nothing is known of a queue: often a misspelt name."""

from typing import TYPE_CHECKING

import click

from tradewind.cli.text import one_line
from tradewind.errors import TradewindError
from tradewind.policy.filters import NOBODY_RUNS_IT
from tradewind.policy.rules import UNSERVED

if TYPE_CHECKING:
    from tradewind.client import Client, Receipt, Route

__all__ = ["UNSERVED", "hint_unknown_queue", "is_unserved", "warn_unserved"]

_NAMED = 8  # handlers, or queues, that are listed


def is_unserved(of: "Receipt | Route") -> bool:
    """Whether the task is, or would be, where no live worker runs it, whatever decided that."""
    return bool(of.region) and (of.rule == UNSERVED or of.waits_for in NOBODY_RUNS_IT)


async def warn_unserved(client: "Client", name: str, queue: str, *, advice: str = "") -> None:
    """Warn on stderr, and name what live workers do run in that queue; `advice` comes last."""
    try:
        workers, _ = await client.admin.workers()
    except TradewindError:  # the list is an extra: the task is stored whether or not it comes
        workers = []
    known = sorted(
        {each for worker in workers if queue in worker.queues for each in worker.handlers}
    )
    runs = (
        f"workers there run {_listed(known)}"
        if known
        else "no live worker takes tasks from that queue"
    )
    said = (
        f"no live worker runs {name!r} in queue {queue} ({runs}); the task is kept and waits "
        "until one does"
    )
    click.echo(f"Warning: {one_line(said)}.{advice and ' '}{advice}", err=True)


async def hint_unknown_queue(client: "Client", queue: str) -> None:
    """Where nothing was found in `queue`: say so on stderr if no region has ever heard of it.

    A queue needs no entry in regions.yaml, so that its name is wrong cannot be known.
    """
    if not queue:
        return
    try:
        counts, silent = await client.admin.queues()
        workers, also_silent = await client.admin.workers()
    except TradewindError:  # a hint is an extra
        return
    known = {each.queue for each in counts}.union(*(worker.queues for worker in workers))
    if queue in known or silent or also_silent:
        return
    others = f"known are {_listed(sorted(known))}" if known else "no queue is known yet"
    said = f"no region holds tasks of a queue {queue!r}, and no live worker serves it; {others}"
    click.echo(f"Hint: {one_line(said)}.", err=True)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
