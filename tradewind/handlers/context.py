"""What a handler is told about the task it runs."""

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

_log = logging.getLogger("tradewind.task")


class Flag:
    """Yes or no, for any thread. Nobody waits for it: so it needs no lock, as an Event does."""

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        """No."""
        self._is_set = False

    def is_set(self) -> bool:
        """Whether it is a yes."""
        return self._is_set

    def set(self) -> None:
        """Yes, from now on."""
        self._is_set = True

    def clear(self) -> None:
        """No longer."""
        self._is_set = False


class Signals:
    """The worker's side of a Context: what it tells a running handler. Safe from any thread."""

    __slots__ = ("cancelled", "doubtful", "noticed", "report")

    def __init__(self) -> None:
        """Nothing has been signalled."""
        self.cancelled = Flag()  # stop, the result no longer counts
        self.doubtful = Flag()  # the lease could not be renewed, it may have ended
        self.noticed = Flag()  # the handler has looked, and knows that it is to stop
        self.report: Callable[[float, str], None] = _ignore  # takes progress, from any thread


@dataclass(frozen=True, slots=True)
class Context:
    """One attempt at one task.

    As key of an effect that must happen once, use `task_id`, or `fingerprint` if the task was
    submitted with an idempotency key or deduplicated by payload. Where an effect's store can
    compare numbers, have it refuse a `fencing_token` lower than the highest it has seen: a holder
    that was paused and woke up late has a lower one.
    """

    task_id: str
    attempt: int = 1  # starts at 1 again after a move to another region
    region: str = ""
    fingerprint: str = ""  # hex SHA-256 of the task's identity
    fencing_token: int = 0  # grows with every claim, across regions too
    deadline: datetime | None = None  # when this attempt times out, by this host's clock
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    tenant: str = ""
    name: str = ""  # of the handler
    queue: str = ""
    signals: Signals = field(default_factory=Signals, repr=False)

    @property
    def log(self) -> "TaskLog":
        """A logger that marks every line with the task, the attempt and the region."""
        marks = {"task_id": self.task_id, "attempt": self.attempt, "task_region": self.region}
        return TaskLog(_log, marks)

    @property
    def cancelled(self) -> bool:
        """Whether to stop: cancelled, past the deadline, the lease lost, or the worker going down.

        A coroutine is cancelled as well; a plain function has to look. When a task's cancel was
        asked for, a handler that has seen True here and returns has stopped, and the task ends
        CANCELLED; one that returns without having looked has completed.
        """
        if not self.signals.cancelled.is_set():
            return False
        self.signals.noticed.set()
        return True

    @property
    def lease_doubtful(self) -> bool:
        """Whether the worker cannot renew its lease: another worker may be running the task."""
        return self.signals.doubtful.is_set()

    def progress(self, fraction: float, note: str = "") -> Awaitable[None]:
        """Report how far the attempt is: 0 to 1, with a short remark.

        Await it in a coroutine; a plain function may just call it. Cheap: whoever watches the task
        sees the newest report, within about 250 ms; the note is cut to 1 KiB. It is gone with the
        next attempt. Raises ValueError outside 0 to 1.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"progress is a fraction from 0 to 1, not {fraction}")
        self.signals.report(float(fraction), note)
        return _Done()


class TaskLog(logging.LoggerAdapter[logging.Logger]):
    """Adds the task's marks to what the handler itself passes as `extra`."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Merge the marks into `extra`; the marks win."""
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs


class _Done:
    """Already done; awaiting it takes no turn of the event loop."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


def _ignore(_fraction: float, _note: str) -> None:
    """Without a worker nobody listens."""
