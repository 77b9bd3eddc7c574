"""The signals of a worker process: one to stop, another to hurry, one to read its file again."""

import asyncio
import itertools
import signal
from collections.abc import Callable
from types import FrameType
from typing import Final

from tradewind.startup import on_hangup
from tradewind.stops import Stops

_SHORT_GRACE_S: Final = 1.0  # what a second signal leaves


def listen(
    grace_s: float, *, end_in: Callable[[float], None], reread: Callable[[], None]
) -> "tuple[asyncio.Future[None], asyncio.Future[None]]":
    """(stop, hurry): set by the first and the second SIGTERM or SIGINT.

    `end_in` is called at once by each, in seconds what it leaves, even while a coroutine holds the
    loop. SIGHUP calls `reread`.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()
    hurry: asyncio.Future[None] = loop.create_future()

    # Counted where they are heard at once: to a loop that was held, all of them come together.
    stops, requests = Stops(), 0
    graces = itertools.chain((grace_s,), itertools.repeat(_SHORT_GRACE_S))

    def noted(_number: int, _frame: FrameType | None) -> None:
        nonlocal requests
        if stops.is_new():
            requests += 1
            end_in(next(graces))

    def signalled() -> None:
        if requests > 1:
            loop.call_later(_SHORT_GRACE_S, resolve, hurry)
        resolve(stop)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
        # In place of the loop's own, which does nothing: the loop hears by a file, when it turns;
        # this hears at once.
        signal.signal(number, noted)
    on_hangup(reread, signalled)
    return stop, hurry


def resolve(future: "asyncio.Future[None]") -> None:
    """Set it, unless it is."""
    if not future.done():
        future.set_result(None)
