"""One set-up of logging for every process: lines for people on a terminal, JSON elsewhere.

Facts travel as `extra` fields, never inside the message, so that a log store can search them. No
payload, result or argument is logged anywhere; credentials in addresses are blanked here, as the
last line of defence.
"""

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

# What every LogRecord has; everything else on a record came in through `extra`.
_STANDARD: Final = frozenset(
    [*vars(logging.makeLogRecord({})), "message", "asctime", "color_message", "taskName"]
)
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s@]+@")


def setup(
    service: str,
    *,
    region: str = "",
    level: int | str = logging.INFO,
    stream: TextIO | None = None,
) -> None:
    """Send all logging of this process to `stream` (stderr), marked with service and region.

    May be called again; the last call wins.
    """
    out = stream or sys.stderr
    handler = logging.StreamHandler(out)
    marks = {"service": service, "region": region} if region else {"service": service}
    handler.setFormatter(LineFormatter() if out.isatty() else JsonFormatter(marks))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(capture=True)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, marks, extra fields, exception."""

    def __init__(self, marks: Mapping[str, str] | None = None) -> None:
        """`marks` stand in every line."""
        super().__init__()
        self._marks = dict(marks or {})

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        line: dict[str, Any] = {
            "time": _instant(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._marks,
            **_extras(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _blank(json.dumps(line, default=str, ensure_ascii=False))


class LineFormatter(logging.Formatter):
    """A line for people: time, level, logger, message, key=value."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line; an exception follows below."""
        pairs = "".join(f" {key}={value}" for key, value in _extras(record).items())
        time = _instant(record).astimezone().strftime("%H:%M:%S.%f")[:-3]
        text = f"{time} {record.levelname:<7} {record.name}: {record.getMessage()}{pairs}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return _blank(text)


def _instant(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _blank(text: str) -> str:
    return _CREDENTIALS.sub("***@", text)
