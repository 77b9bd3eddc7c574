"""What the log says of an error that has no row in the table of statuses."""

import logging
import traceback

_log = logging.getLogger(__name__)


def report(method: str, error: BaseException) -> None:
    """Log where it happened and of which type, but not its text: that may hold a payload."""
    frames = traceback.extract_tb(error.__traceback__)
    _log.error(
        "failed for an unknown cause",
        extra={
            "in": method,
            "error": type(error).__qualname__,
            "at": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
        },
    )
