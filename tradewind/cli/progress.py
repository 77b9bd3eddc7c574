"""How far the command line's own work is: what is quick needs no word."""

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import TypeVar

T = TypeVar("T")

_QUIET_S = 2.0  # as for a router that does not answer (tradewind.cli.session)
_EVERY = 64  # items: to draw a bar costs more than to read a task or to route it


def watched(items: Iterable[T], said: str, *, total: int | None = None) -> Iterator[T]:
    """Give the items. After a while a terminal on stderr shows how many there were, `said` so."""
    from rich.progress import MofNCompleteColumn, Progress  # noqa: PLC0415 - slow to import

    from tradewind.cli import show  # noqa: PLC0415 - so is rich

    err = show.console(err=True)
    shown_from = time.monotonic() + _QUIET_S
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    progress = Progress(*columns, console=err, transient=True)
    bar = progress.add_task(said, total=total)
    with ExitStack() as showing:
        for number, item in enumerate(items):
            if number % _EVERY == 0 and err.is_terminal and time.monotonic() >= shown_from:
                progress.update(bar, completed=number)
                if not progress.live.is_started:
                    showing.enter_context(progress)
            yield item
