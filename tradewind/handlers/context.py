"""What a handler is told about the task it runs."""

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, MutableMapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

_log = logging.getLogger("tradewind.task")


class Flag:
    """Yes or no, for any thread. Nobody waits for it: so it needs no lock, as an Event does."""

    _is_set = False

    def is_set(self) -> bool:
        """Whether it is a yes."""
        return self._is_set

    def set(self) -> None:
        """Yes, from now on."""
        self._is_set = True

    def clear(self) -> None:
        """No longer."""
        self._is_set = False


class _Raised:
    """A Flag that is made when somebody asks for it: of most attempts nobody does."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, signals: object, owner: type) -> Flag:
        # Of two threads that ask at the same time both get the same one: setdefault is one step.
        return vars(signals).setdefault(self._name, Flag())

    def __set__(self, signals: object, flag: Flag) -> None:
        vars(signals)[self._name] = flag


class Signals:
    """The worker's side of a Context: what it tells a running handler. Safe from any thread."""

    cancelled = _Raised()  # stop, the result no longer counts
    doubtful = _Raised()  # the lease could not be renewed, it may have ended
    noticed = _Raised()  # the handler has looked, and knows that it is to stop
    report: Callable[[float, str], None]  # takes progress, from any thread

    def __init__(self, report: Callable[[float, str], None] | None = None) -> None:
        """Nothing has been signalled. `report` goes nowhere if it is not given."""
        self.report = report or _ignore

    @property
    def has_noticed(self) -> bool:
        """Whether `noticed` is set."""
        flag = vars(self).get("noticed")
        return flag is not None and flag.is_set()


class Facts(Protocol):
    """What a context tells of its task, read when it is asked for: most handlers ask for little."""

    @property
    def task_id(self) -> str: ...  # noqa: D102 - see Context
    @property
    def attempt(self) -> int: ...  # noqa: D102
    @property
    def region(self) -> str: ...  # noqa: D102
    @property
    def fingerprint(self) -> str: ...  # noqa: D102
    @property
    def fencing_token(self) -> int: ...  # noqa: D102
    @property
    def deadline(self) -> datetime | None: ...  # noqa: D102
    @property
    def labels(self) -> Mapping[str, str]: ...  # noqa: D102
    @property
    def tenant(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def queue(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class _Given:
    """Facts that were given all at once."""

    task_id: str
    attempt: int
    region: str
    fingerprint: str
    fencing_token: int
    deadline: datetime | None
    labels: Mapping[str, str]
    tenant: str
    name: str
    queue: str


class Context:
    """One attempt at one task.

    As key of an effect that must happen once, use `task_id`, or `fingerprint` if the task was
    submitted with an idempotency key or deduplicated by payload. Where an effect's store can
    compare numbers, have it refuse a `fencing_token` lower than the highest it has seen: a holder
    that was paused and woke up late has a lower one.
    """

    __slots__ = ("_facts", "signals")

    def __init__(  # noqa: PLR0913 - as many as a handler may ask for
        self,
        task_id: str,
        attempt: int = 1,
        region: str = "",
        *,
        fingerprint: str = "",
        fencing_token: int = 0,
        deadline: datetime | None = None,
        labels: Mapping[str, str] | None = None,
        tenant: str = "",
        name: str = "",
        queue: str = "",
        signals: Signals | None = None,
    ) -> None:
        """One of one's own, to call a handler with. A worker makes its own with `over`."""
        self._facts: Facts = _Given(
            *(task_id, attempt, region, fingerprint, fencing_token),
            *(deadline, labels or {}, tenant, name, queue),
        )
        self.signals = signals or Signals()

    @classmethod
    def over(cls, facts: Facts, signals: Signals) -> "Context":
        """One that tells what `facts` say when it is asked."""
        context = cls.__new__(cls)
        context._facts, context.signals = facts, signals  # noqa: SLF001 - its own class
        return context

    def __repr__(self) -> str:
        """Which attempt it is."""
        return f"Context({self.task_id!r}, attempt={self.attempt}, region={self.region!r})"

    @property
    def task_id(self) -> str:
        """The id that the submit was answered with."""
        return self._facts.task_id

    @property
    def attempt(self) -> int:
        """Starts at 1, and again after a move to another region."""
        return self._facts.attempt

    @property
    def region(self) -> str:
        """Where it runs."""
        return self._facts.region

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of the task's identity."""
        return self._facts.fingerprint

    @property
    def fencing_token(self) -> int:
        """Grows with every claim, across regions too."""
        return self._facts.fencing_token

    @property
    def deadline(self) -> datetime | None:
        """When this attempt times out, by this host's clock."""
        return self._facts.deadline

    @property
    def labels(self) -> Mapping[str, str]:
        """As submitted."""
        return self._facts.labels

    @property
    def tenant(self) -> str:
        """As submitted."""
        return self._facts.tenant

    @property
    def name(self) -> str:
        """Of the handler."""
        return self._facts.name

    @property
    def queue(self) -> str:
        """The queue that it came from."""
        return self._facts.queue

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
