"""Exit codes of the command line."""

import click

from tradewind import errors
from tradewind.cli.flags import typed
from tradewind.cli.text import one_line

DONE, FAILED, USAGE, UNREACHABLE, NOT_FOUND = 0, 1, 2, 3, 4

_CODES: tuple[tuple[type[errors.TradewindError], int], ...] = (
    (errors.RouterUnreachable, UNREACHABLE),
    (errors.NoAnswer, UNREACHABLE),
    (errors.UnknownTask, NOT_FOUND),
    (errors.InvalidTask, USAGE),
    (errors.IdempotencyKeyReused, USAGE),
    (errors.PayloadTooLarge, USAGE),
    (errors.ConfigError, USAGE),
    (errors.TradewindError, FAILED),
)


class Failed(click.ClickException):
    """The operation failed; the message is a sentence that says what to do."""

    exit_code = FAILED


class Unusable(click.ClickException):
    """What was given cannot be used; the message says where and why."""

    exit_code = USAGE


def exit_code(error: Exception) -> int | None:
    """Give the code for an error; None for one that is a bug and deserves its traceback."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), None)


def sentences(error: Exception) -> list[str]:
    """Give what to say of an error: one sentence, or one for each mistake in a file."""
    if isinstance(error, errors.ConfigErrors):
        return [one_line(str(each)) for each in error.errors]
    return [one_line(typed(error))]
