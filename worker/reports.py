"""Progress of running handlers: the newest only, at most so often, and never in the way."""

import asyncio
import functools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from tradewind.attempts.describe import cut, name_of, text, where
from tradewind.errors import StoreError
from tradewind.limits import KIB
from tradewind.ports import Claims
from tradewind.task import Claim, Progress

_log = logging.getLogger(__name__)
_EVERY_S: Final = 0.25  # WatchTask may coalesce what is shorter
_BATCH: Final = 256  # reports sent in one call
_NOTE_BYTES: Final = 1 * KIB  # what the store keeps of a note
_LAST_TIMEOUT_S: Final = 1.0  # for the last one: it must not hold up the settlement

Tell = Callable[[float, str], None]


class Reports:
    """Sends what handlers say of their progress, one write every _EVERY_S for all of them."""

    def __init__(self, store: Claims) -> None:
        """`store` of the tasks' region."""
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._latest: dict[tuple[str, int], Progress] = {}
        self._lock = threading.Lock()  # handlers report from their threads
        self._sending = asyncio.Lock()  # an older one must not overtake the last one
        self._wake = asyncio.Event()

    def of(self, claim: Claim) -> Tell:
        """What the attempt `claim` stands for reports with, from any thread. Never raises."""
        return functools.partial(self._tell, claim)

    def _tell(self, claim: Claim, fraction: float, note: str) -> None:
        progress = Progress(claim, fraction, cut(text(note), _NOTE_BYTES))
        with self._lock:
            is_first = not self._latest
            self._latest[claim.task_id, claim.token] = progress
        if is_first:
            try:
                self._loop.call_soon_threadsafe(self._wake.set)
            except RuntimeError:  # the loop has closed: a thread outlived its worker
                _log.debug("progress of a task that nobody waits for")

    async def run(self) -> None:
        """Send, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            with self._lock:
                waiting, self._latest = list(self._latest.values()), {}
            for start in range(0, len(waiting), _BATCH):
                await self._send(waiting[start : start + _BATCH])
            await asyncio.sleep(_EVERY_S)

    def has(self, claim: Claim) -> bool:
        """Whether something of the attempt waits to be sent."""
        return bool(self._latest) and (claim.task_id, claim.token) in self._latest

    async def last(self, claim: Claim) -> None:
        """Send what is left of an attempt that has ended, before its settlement makes it late."""
        with self._lock:
            progress = self._latest.pop((claim.task_id, claim.token), None)
        if progress is None:
            return
        try:
            async with asyncio.timeout(_LAST_TIMEOUT_S):
                await self._send([progress])
        except TimeoutError:
            _log.debug("the last progress was not sent", extra={"task_id": claim.task_id})

    async def _send(self, items: Sequence[Progress]) -> None:
        """One write. It is news, not work: where the store is full or away it is dropped."""
        async with self._sending:
            try:
                await self._store.progress(items)
            except StoreError as error:
                _log.debug("progress was not sent", extra={"reason": str(error)})
            except Exception as error:  # noqa: BLE001 - and it must not cost the attempt its end
                extra = {"error": name_of(error), "where": where(error)}
                _log.error("progress cannot be sent", extra=extra)
