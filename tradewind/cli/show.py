"""How values look: tables for people, JSON for programs."""

import base64
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import click
from rich.console import Console
from rich.text import Text

from tradewind.cli.text import clean, json_safe, one_line

if TYPE_CHECKING:
    from tradewind.client import TaskView

# Wider than any line of ours: what is piped is folded only to a width that somebody asks for.
_PIPED_WIDTH = 1_000_000

# Characters of an error that stand beside other things; `get` has all of it.
_FIRST_LINE = 200

_STATE_STYLES = {
    "COMPLETED": "green",
    "DEAD_LETTER": "red",
    "FAILED": "yellow",
    "MOVING": "magenta",
    "PROCESSING": "cyan",
    "CANCELLED": "dim",
    "EXPIRED": "dim",
    "HEALTHY": "green",
    "RECOVERING": "yellow",
    "DEGRADED": "yellow",
    "DOWN": "bold red",
    "HALF_OPEN": "yellow",
    "KEPT_OUT": "bold red",
    "ACTIVE": "green",
    "CORDONED": "yellow",
    "DRAINING": "yellow",
}


def console(*, err: bool = False) -> Console:
    """Give a console with colours on a terminal only, and that takes text as it is.

    As wide as COLUMNS says, else as the terminal is.
    """
    stream = sys.stderr if err else sys.stdout
    asked = os.environ.get("COLUMNS", "")
    width = int(asked) if asked.isdecimal() and int(asked) else None
    is_free = width is None and not stream.isatty()
    return Console(
        file=stream,
        highlight=False,
        markup=False,  # what handlers and callers wrote may hold brackets
        emoji=False,
        width=_PIPED_WIDTH if is_free else width,
        soft_wrap=is_free,
    )


def text(value: str, style: str = "") -> Text:
    """Give what somebody else wrote as a cell, control characters replaced."""
    return Text(clean(value), style)


def state(name: str) -> Text:
    """Give a state in its colour."""
    return Text(name, _STATE_STYLES.get(name, ""))


def milliseconds(value: float | None) -> str:
    """Give a time in ms, or a dash for one that is not known."""
    return "-" if value is None else f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def seconds(value: float | None) -> str:
    """Give a time in seconds, in the unit that reads best."""
    if value is None:
        return "-"
    if value < 1:
        return milliseconds(value * 1_000)
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.0f} min" if value < 7_200 else f"{value / 3_600:.1f} h"


def moment(value: datetime | None) -> str:
    """Give a moment in full: local date, time to the millisecond, zone. Empty if there is none."""
    if value is None:
        return ""
    local = value.astimezone()
    return f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1_000:03} {local:%Z}"


def day_and_time(value: datetime | None) -> str:
    """Give a moment for a table, whose header names the zone (`zone`)."""
    return "-" if value is None else f"{value.astimezone():%Y-%m-%d %H:%M:%S}"


def clock(value: datetime) -> str:
    """Give the local time of day, for what is watched while it happens."""
    return f"{value.astimezone():%H:%M:%S}"


def zone(*moments: datetime | None) -> str:
    """Give the name of the local zone at the first moment there is, for a header."""
    return next((f"{each.astimezone():%Z}" for each in moments if each is not None), "")


def emit(value: Any, *, line: bool = False) -> None:
    """Print JSON: readable, or on one line where one document follows another."""
    click.echo(json_text(value, indent=None if line else 2))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Give JSON for people's eyes: letters as they are, control characters escaped."""
    return json_safe(json.dumps(plain(value), ensure_ascii=False, indent=indent))


def plain(value: Any) -> Any:
    """Give the value as JSON can say it: dataclasses as objects, times as text and seconds."""
    shown: Any = value
    if is_dataclass(value) and not isinstance(value, type):
        shown = {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    elif isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value)
        shown = {str(key): plain(member) for key, member in members.items()}
    elif isinstance(value, list | tuple):
        shown = [plain(member) for member in cast("Sequence[Any]", value)]
    elif isinstance(value, datetime):
        shown = value.isoformat().replace("+00:00", "Z")
    elif isinstance(value, timedelta):
        shown = value.total_seconds()
    elif isinstance(value, bytes):
        shown = base64.b64encode(value).decode()
    return shown


def task_json(view: "TaskView") -> dict[str, Any]:
    """Give a task as an object; a payload that is JSON as JSON, bytes as base64."""
    shown: dict[str, Any] = plain(view)
    shown["max_attempts"] = view.max_attempts or None  # as `timeout`: the submit did not say
    payload = shown.pop("payload")
    if view.payload and view.content_type == "application/json":
        shown["payload"] = json.loads(view.payload)
    elif payload:
        shown["payload_base64"] = payload
    if isinstance(view.result, bytes):
        shown["result_base64"] = shown.pop("result")
    return shown


def first_line(message: str) -> str:
    """Give the first line, cut to what fits beside other things."""
    return one_line((message.splitlines() or [""])[0])[:_FIRST_LINE]


def result_text(result: Any) -> str:
    """Give a result for a person: JSON, or how many bytes."""
    if isinstance(result, bytes):
        return f"{len(result):,} bytes (--json has them as base64)"
    return json_text(result)


def payload_text(view: "TaskView") -> str:
    """Give a payload for a person: JSON as it came, or how many bytes."""
    if view.content_type == "application/json":
        return clean(view.payload.decode(errors="replace"))
    return f"{len(view.payload):,} bytes of {view.content_type} (--json has them as base64)"


def warn_silent(silent: Sequence[str], so: str = "the list is partial") -> None:
    """Say on stderr which regions a list is missing, or what else follows of that."""
    if silent:
        click.echo(f"Warning: no answer from {', '.join(silent)}; {so}.", err=True)
