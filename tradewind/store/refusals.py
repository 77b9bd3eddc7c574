"""What the error replies of Redis mean: docs/redis.md has the table.

Whoever calls has to know two things: whether anything can have been changed, and whether the same
call may go well, and where.
"""

from collections.abc import Callable
from typing import Final

from redis import exceptions as redis_errors

from tradewind.errors import (
    StoreContractBroken,
    StoreError,
    StoreFull,
    StoreMoving,
    StoreUnavailable,
)
from tradewind.store.causes import UNKNOWN_COMMAND, denied


class Elsewhere(StoreError):
    """Another node serves the slot: learn the map anew and repeat there. Nothing was changed."""

    def __init__(self, cause: str, *, to: str = "") -> None:
        """`cause` is ours. `to`: the node that serves it, as "SLOT HOST:PORT", if that was said."""
        self.cause, self.to = cause, to
        super().__init__(cause)


class Later(StoreError):
    """The node cannot serve the call now: back off within the deadline. Nothing was changed."""

    def __init__(self, cause: str, *, doubtful: bool = False) -> None:
        """`cause` is ours. `doubtful`: by now another node may serve the slot."""
        self.cause, self.doubtful = cause, doubtful
        super().__init__(cause)


class ScriptUnknown(StoreError):
    """NOSCRIPT: send the source to the same node. Nothing was changed."""


_NO_NODE: Final = "no node serves the partition"
_REPLICA: Final = "its node is a replica, which takes no writes"
_LOADING: Final = "still loading its data"

Ours = Callable[[str, int, str], StoreError]  # of region, partition and the text of the reply


def _login_refused(region: str, _partition: int, _text: str) -> StoreError:
    return StoreUnavailable(region, "login refused", sent=False)


def _denied(region: str, _partition: int, text: str) -> StoreError:
    return StoreUnavailable(region, denied(text), sent=False)


def _busy(_region: str, _partition: int, _text: str) -> StoreError:
    return Later("busy with a script")


def _moving(region: str, partition: int, _text: str) -> StoreError:
    return StoreMoving(region, partition)


# In this order: MovedError is an AskError, MasterDownError a ClusterDownError.
_BY_CLASS: tuple[tuple[type[Exception], Ours], ...] = (
    (redis_errors.NoScriptError, lambda _r, _p, _t: ScriptUnknown()),
    (redis_errors.MovedError, lambda _r, _p, text: Elsewhere(_NO_NODE, to=text)),
    (redis_errors.AskError, _moving),
    (redis_errors.TryAgainError, _moving),
    (redis_errors.ReadOnlyError, lambda _r, _p, _t: Elsewhere(_REPLICA)),
    (redis_errors.MasterDownError, lambda _r, _p, _t: Elsewhere("its primary is down")),
    (redis_errors.ClusterDownError, lambda _r, _p, _t: Later("cluster down", doubtful=True)),
    (redis_errors.BusyLoadingError, lambda _r, _p, _t: Later(_LOADING, doubtful=True)),
    (redis_errors.OutOfMemoryError, lambda region, _p, _t: StoreFull(region)),
    (redis_errors.AuthenticationError, _login_refused),
    (redis_errors.NoPermissionError, _denied),
)
# Replies that redis-py gives no class of their own, by their first word.
_BY_WORD: dict[str, Ours] = {
    "OOM": lambda region, _p, _t: StoreFull(region),
    "BUSY": _busy,
    "UNKILLABLE": _busy,  # it has written already, so nobody can end it but itself
    "NOREPLICAS": lambda _r, _p, _t: Later("not enough replicas"),
    "MISCONF": lambda _r, _p, _t: Later("cannot persist its data"),
    "UNBLOCKED": lambda _r, _p, _t: Elsewhere(_REPLICA),  # a primary that became one
    "unknown": lambda region, _p, _t: StoreUnavailable(region, UNKNOWN_COMMAND, sent=False),
    "NOAUTH": _login_refused,
    "NOPERM": _denied,
    "WRONGPASS": _login_refused,
}

_NOT_PERMITTED: Final = "its login lacks a permission that our scripts need"
# Faults that a script meets on its way: it may have written before, so the outcome is unknown. The
# last field: it will meet them again.
_ON_THE_WAY: Final = (
    ("ACL failure in script", _NOT_PERMITTED, True),
    ("user executing the script can't", _NOT_PERMITTED, True),  # the same in Redis 7.0
    ("WRONGTYPE", "somebody else's data is under our keys", True),
    ("attempted to access a non local key", "the slot moved under a script", False),
)


def error_of(region: str, partition: int, error: Exception) -> StoreError:
    """Our error for an error reply. Only where it says `sent` may anything have been changed."""
    text = str(error)
    for words, cause, failed in _ON_THE_WAY:
        if words in text:
            return StoreUnavailable(region, cause, sent=True, failed=failed)
    for kind, ours in _BY_CLASS:
        if isinstance(error, kind):
            return ours(region, partition, text)
    by_word = _BY_WORD.get(text.split(" ", 1)[0])
    if by_word is not None:
        return by_word(region, partition, text)
    return StoreContractBroken(f"region {region} answered a script with an error: {text[:200]}")


def final(region: str, error: StoreError) -> StoreError:
    """What a caller is told whose time is over while Redis still refuses. Nothing was changed."""
    if isinstance(error, Elsewhere | Later):
        return StoreUnavailable(region, error.cause, sent=False)
    return error
