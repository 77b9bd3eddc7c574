"""The one error of local set-up."""

from tradewind.errors import SetupError


class LocalSetupError(SetupError):
    """Embedded regions cannot run here as asked; the message says what to do.

    Asking again does not help before somebody changed something.
    """
