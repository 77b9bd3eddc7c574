"""Passes on word of tasks that are dead for good: to the webhook or the task of their queue.

What is due lies in the store, in the region that holds the dead task, and is told by a worker of
that region: at least once, however often workers die. It takes none of the handlers' slots.
"""

import asyncio
import logging
import random
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from tradewind import metrics
from tradewind.backoff import delay_ms
from tradewind.errors import StoreError
from tradewind.fleet import DeadTaskHandler, Fleet, Webhook
from tradewind.limits import HOUR_MS, SECOND_MS
from tradewind.ports import Intake, Notices
from tradewind.task import Notice, Stored
from worker import news
from worker.thrift import Thrift
from worker.timers import Timers

_log = logging.getLogger(__name__)
_BATCH: Final = 32  # notices of a partition taken at once
_UNDER_WAY: Final = 256  # in this process; each is a message of a few hundred bytes
_FIRST_WAIT_MS: Final = 5 * SECOND_MS
_LONGEST_WAIT_MS: Final = 1 * HOUR_MS
#: After so many failed tries, 12 to 24 hours after the first one, nobody is told any more.
MAX_TRIES: Final = 33
_STORE_MS: Final = 5 * SECOND_MS  # for the store to hear how it went; region_client.CALL_TIMEOUT_S
# What the log says of a try, by how it ended.
_LINES: Final[dict[str, tuple[int, str]]] = {
    "retried": (logging.WARNING, "on_dead could not tell of a dead task; it will be tried again"),
    "gone": (logging.WARNING, "on_dead's receiver wants no word of this dead task: not told"),
    "given_up": (logging.ERROR, "on_dead could not tell of a dead task: given up"),
}


class Store(Notices, Intake, Protocol):
    """What a herald needs of its region."""


@dataclass(frozen=True, slots=True)
class Told:
    """How a try ended; metrics.NOTICE_OUTCOMES says what each means. `why`: of a failure."""

    outcome: Literal["sent", "retried", "gone", "given_up", "withheld", "dropped"]
    why: str = ""  # in our own words: no address, nothing that a receiver said


class Sender(Protocol):
    """Who carries messages out: webhooks.Webhooks."""

    async def send(self, hook: Webhook, message_id: str, body: bytes) -> Told:
        """One try. Never raises for what a receiver does."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


def hold_ms(fleet: Fleet) -> int:
    """For how long what was taken is this worker's: longer than any try takes, see Sender.send."""
    hooks = [policy.on_dead for policy in (fleet.default_queue, *fleet.queues.values())]
    longest_ms = max((hook.timeout_ms for hook in hooks if isinstance(hook, Webhook)), default=0)
    return 2 * longest_ms + _STORE_MS


class Herald:
    """Tells what is due in the partitions it is asked to `visit`."""

    def __init__(self, store: Store, fleet: Fleet, sender: Sender | None) -> None:
        """`sender` may only be None if no queue of the fleet has a webhook."""
        self._store, self._fleet, self._sender = store, fleet, sender
        self._hold_ms = hold_ms(fleet)
        self._waiting: set[int] = set()  # partitions
        self._under_way = 0
        self._wake = asyncio.Event()
        self._timers = Timers(self.visit)
        self._thrift = Thrift()  # a receiver that is down fails for all that is dead, at once

    def follow(self, fleet: Fleet, sender: Sender | None) -> None:
        """Go on with another fleet; `sender` as above."""
        self._fleet, self._sender = fleet, sender
        # What was taken before this is held for as long as was said then.
        self._hold_ms = hold_ms(fleet)

    def visit(self, partition: int) -> None:
        """Something may be due there."""
        self._waiting.add(partition)
        self._wake.set()

    async def run(self) -> None:
        """Tell, until cancelled: what was not answered by then is due again after `hold_ms`."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._wake.wait()
                    self._wake.clear()
                    while self._waiting and self._under_way < _UNDER_WAY:
                        await self._take(self._waiting.pop(), group)
        finally:
            self._under_way = 0
            self._timers.stop()

    async def _take(self, partition: int, group: asyncio.TaskGroup) -> None:
        most = min(_BATCH, _UNDER_WAY - self._under_way)
        try:
            notices = await self._store.notices(partition, limit=most, hold_ms=self._hold_ms)
        except StoreError as error:  # the next sweep asks for it again
            extra = {"partition": partition, "reason": str(error)}
            _log.debug("word of dead tasks waits for the region", extra=extra)
            return
        if len(notices) == most:
            self._waiting.add(partition)
        self._under_way += len(notices)
        for notice in notices:
            group.create_task(self._tell(partition, notice))

    async def _tell(self, partition: int, notice: Notice) -> None:
        try:
            told = await self._told(notice)
            retry_after_ms = self._book(notice, told)
            await self._store.noticed(notice, retry_after_ms=retry_after_ms)
            if retry_after_ms is not None:
                self._timers.arm(partition, retry_after_ms)
        except StoreError as error:
            extra = {"task_id": notice.record.task_id, "reason": str(error)}
            _log.debug("word of a dead task will be passed on once more", extra=extra)
        except Exception:  # noqa: BLE001 - it is due again, and others wait behind it
            extra = {"task_id": notice.record.task_id}
            _log.exception("word of a dead task could not be passed on", extra=extra)
        finally:
            self._under_way -= 1
            self._wake.set()

    async def _told(self, notice: Notice) -> Told:
        """Tell once."""
        hook = self._fleet.queue(notice.queue).on_dead
        if hook is None or not news.is_news(notice):
            return Told("dropped")
        if isinstance(hook, DeadTaskHandler):
            return await self._submitted(notice, hook)
        body = news.message(notice, hook)
        if body is None:
            return Told("withheld")
        assert self._sender is not None, "the main looked for webhooks"  # noqa: S101
        return await self._sender.send(hook, news.message_id(notice), body)

    async def _submitted(self, notice: Notice, hook: DeadTaskHandler) -> Told:
        task = news.task(notice, hook, self._fleet)
        (outcome,), _ = await self._store.enqueue([task], timeout_s=_STORE_MS / SECOND_MS)
        if isinstance(outcome, Stored):
            return Told("sent")
        why = str(outcome) if isinstance(outcome, StoreError) else "not stored in time"
        return Told("retried", why)

    def _book(self, notice: Notice, told: Told) -> int | None:
        """Count and log it. Returns the wait before the next try, None if there is none."""
        tries, outcome = notice.tries + 1, told.outcome
        if outcome == "retried" and tries >= MAX_TRIES:
            outcome = "given_up"
        label = metrics.queue_label(self._fleet, notice.queue)
        metrics.NOTICES.labels(self._store.region, label, outcome).inc()
        retry_after_ms = wait_ms(tries, random.random()) if outcome == "retried" else None
        if outcome in _LINES and (others := self._thrift.left_out(outcome, label)) is not None:
            level, line = _LINES[outcome]
            extra = {
                "task_id": notice.record.task_id,
                "queue": notice.queue,
                "reason": told.why,
                "tries": tries,
            }
            if retry_after_ms is not None:
                extra["next_try_in_s"] = round(retry_after_ms / SECOND_MS)
            if others:
                extra["others_not_logged"] = others
            _log.log(level, line, extra=extra)
        return retry_after_ms


def wait_ms(tries: int, jitter: float) -> int:
    """Wait after `tries` failed tries; `jitter` in [0, 1), see backoff."""
    return delay_ms(
        tries, initial_ms=_FIRST_WAIT_MS, factor=2, max_ms=_LONGEST_WAIT_MS, jitter=jitter
    )
