"""The life of a task as one table.

Two rules: every transition lives here, and this file knows no role. The Lua scripts carry out
these transitions and a test checks each state literal in them against `State`; the table in
docs/lifecycle.md is drawn from `TRANSITIONS`.
"""

from enum import StrEnum


class State(StrEnum):
    """Where a task stands; the values are the contract's short names. Stored as one letter."""

    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    PROCESSING = "PROCESSING"
    FAILED = "FAILED"
    COMPLETED = "COMPLETED"
    DEAD_LETTER = "DEAD_LETTER"
    MOVING = "MOVING"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


class Mark(StrEnum):
    """What a record can be when it is no task: it holds no work and is in no count."""

    FORWARDED = "FORWARDED"  # the task left for another region; `target` says which
    PURGED = "PURGED"  # a dead task that is gone; for a while its id cannot be stored again
    REFUSED = "REFUSED"  # a tombstone: this id may not be stored here at this epoch or a lower one


class Event(StrEnum):
    """What happens to a task. Each is one script, or part of one."""

    CLAIM = "claim"
    FINISH = "finish"
    COPY_DONE = "claim of a copy whose first is completed"
    RETRY = "retry"
    BURY = "bury"
    RELEASE = "release"
    LEASE_EXPIRED = "lease expired"
    CRASHED = "crashed"
    CRASHED_OUT = "crashed too often"
    DUE = "due"
    BEGIN_EXPORT = "begin_export"
    ABORT_TO_PENDING = "abort_export of a waiting task"
    ABORT_TO_SCHEDULED = "abort_export of a delayed task"
    ABORT_TO_FAILED = "abort_export of a task between attempts"
    ABORT_TO_DEAD = "abort_export of a dead task"
    CANCEL = "cancel"
    EXPIRE = "expire"
    RETRY_EXPIRED = "retry past its expiry"
    REDRIVE = "redrive"


_S, _E = State, Event

TRANSITIONS: dict[tuple[State, Event], State] = {
    (_S.SCHEDULED, _E.DUE): _S.PENDING,
    (_S.FAILED, _E.DUE): _S.PENDING,
    (_S.PENDING, _E.CLAIM): _S.PROCESSING,
    (_S.PENDING, _E.COPY_DONE): _S.COMPLETED,
    (_S.PROCESSING, _E.FINISH): _S.COMPLETED,
    (_S.PROCESSING, _E.RETRY): _S.FAILED,
    (_S.PROCESSING, _E.BURY): _S.DEAD_LETTER,
    (_S.PROCESSING, _E.RELEASE): _S.PENDING,
    (_S.PROCESSING, _E.LEASE_EXPIRED): _S.PENDING,
    (_S.PROCESSING, _E.CRASHED): _S.PENDING,
    (_S.PROCESSING, _E.CRASHED_OUT): _S.DEAD_LETTER,
    (_S.PENDING, _E.BEGIN_EXPORT): _S.MOVING,
    (_S.SCHEDULED, _E.BEGIN_EXPORT): _S.MOVING,
    (_S.FAILED, _E.BEGIN_EXPORT): _S.MOVING,
    (_S.DEAD_LETTER, _E.BEGIN_EXPORT): _S.MOVING,
    (_S.MOVING, _E.ABORT_TO_PENDING): _S.PENDING,
    (_S.MOVING, _E.ABORT_TO_SCHEDULED): _S.SCHEDULED,
    (_S.MOVING, _E.ABORT_TO_FAILED): _S.FAILED,
    (_S.MOVING, _E.ABORT_TO_DEAD): _S.DEAD_LETTER,
    (_S.PENDING, _E.CANCEL): _S.CANCELLED,
    (_S.SCHEDULED, _E.CANCEL): _S.CANCELLED,
    (_S.FAILED, _E.CANCEL): _S.CANCELLED,
    (_S.PROCESSING, _E.CANCEL): _S.CANCELLED,
    (_S.DEAD_LETTER, _E.CANCEL): _S.CANCELLED,
    (_S.PENDING, _E.EXPIRE): _S.EXPIRED,
    (_S.SCHEDULED, _E.EXPIRE): _S.EXPIRED,
    (_S.FAILED, _E.EXPIRE): _S.EXPIRED,
    (_S.PROCESSING, _E.RETRY_EXPIRED): _S.EXPIRED,
    (_S.DEAD_LETTER, _E.REDRIVE): _S.PENDING,
}

#: Nothing leads out of these.
FINAL = frozenset(State) - {source for source, _ in TRANSITIONS}


class IllegalTransition(ValueError):
    """The event cannot happen in that state; nothing was changed."""

    def __init__(self, state: State, event: Event) -> None:
        """Both as given."""
        self.state, self.event = state, event
        super().__init__(f"{event} cannot happen to a {state} task")


def after(state: State, event: Event) -> State:
    """The state that `event` leads to. Raises IllegalTransition where the table has no row."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(state, event) from None
