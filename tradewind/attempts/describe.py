"""What an app raised or returned, in words that can be stored and logged whatever it was.

Classes of the app have a say in how they are shown: their code may raise, even CancelledError or
SystemExit, or answer with text that is no valid UTF-8. Nothing of that gets past this module.
"""

import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Final

from tradewind.handlers import app, hooks
from tradewind.limits import KIB, MAX_ERROR_BYTES
from tradewind.task import Failure

MESSAGE_BYTES: Final = 4 * KIB  # of MAX_ERROR_BYTES; the traceback gets the rest
_FRAMES: Final = 20  # of a traceback; the innermost tell what failed
_UNREADABLE: Final = "(its message cannot be read)"


def describe(error: BaseException, *, ours: frozenset[str] = frozenset()) -> Failure:
    """The error as stored with the task: class, message, innermost frames; no local variables.

    Frames from the files in `ours` are left out in front of the app's first. Never raises.
    """
    name, said = name_of(error), text(error)
    message = cut(f"{name}: {said}" if said else name, MESSAGE_BYTES)
    rest = MAX_ERROR_BYTES - len(message.encode())
    return Failure("error", message, _cut_head(_tried(lambda: _frames(error, ours)), rest))


def where(error: BaseException, *, ours: frozenset[str] = frozenset()) -> str:
    """FILE:LINE of the innermost frame of the app, for the log. Never raises."""

    def innermost() -> str:
        frames = traceback.extract_tb(_below(error.__traceback__, ours), limit=-1)
        return f"{frames[0].filename}:{frames[0].lineno}" if frames else ""

    return text(_tried(innermost))


def name_of(error: BaseException) -> str:
    """The name of its class: in the log it stands for the message, which may quote a payload."""
    return text(_tried(lambda: type(error).__name__, "(a class without a name)"))


def said(reason: object) -> str:
    """What an app gave as a reason; no hint keeps it from being something else than text."""
    return cut(text(reason), MESSAGE_BYTES)


def text(value: object) -> str:
    """`value` as a plain `str` that is valid UTF-8; what is not is escaped. Never raises."""
    shown = _tried(lambda: str(value), _UNREADABLE)
    # Not shown.encode(): a subclass of str may have its own.
    return str.encode(shown, "utf-8", "backslashreplace").decode("utf-8")


def cut(plain: str, limit: int) -> str:
    """At most `limit` bytes of `plain`, no character halved."""
    data = plain.encode()
    return plain if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


def _cut_head(shown: str, limit: int) -> str:
    """Drop from the front: the innermost frame stands last."""
    plain = text(shown)
    data = plain.encode()
    return plain if len(data) <= limit else data[-limit:].decode("utf-8", "ignore")


def _frames(error: BaseException, ours: frozenset[str]) -> str:
    return "".join(traceback.format_tb(_below(error.__traceback__, ours), limit=-_FRAMES))


def _below(trace: TracebackType | None, ours: frozenset[str]) -> TracebackType | None:
    """The traceback from the app's first frame on."""
    skipped = {__file__, app.__file__, hooks.__file__, *ours}
    while trace is not None and trace.tb_frame.f_code.co_filename in skipped:
        trace = trace.tb_next
    return trace


def _tried(show: Callable[[], str], otherwise: str = "") -> str:
    """`show()`. A cancellation that it raises is the app's own: ours arrives at an await only."""
    try:
        return show()
    except BaseException:  # noqa: BLE001 - see above and the module's first lines
        return otherwise
