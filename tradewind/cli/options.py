"""Flags that submit and explain share, and what they say as TaskOptions."""

import json
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tradewind.cli.session import Duration

if TYPE_CHECKING:
    from tradewind.client import TaskOptions

F = TypeVar("F", bound=Callable[..., Any])


class Label(click.ParamType[tuple[str, str]]):
    """`key=value`."""

    name = "label"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Split at the first equals sign."""
        if isinstance(value, tuple):
            return value  # pyright: ignore[reportUnknownVariableType] - converted before
        key, equals, text = str(value).partition("=")
        if not key or not equals:
            self.fail(f"{value!r} is no label: write key=value", param, ctx)
        return key, text


_OPTIONS = (
    click.option("--queue", help="Queue to wait in [default: default]."),
    click.option(
        "--priority", type=click.Choice(["high", "normal", "low"]), help="Order in the queue."
    ),
    click.option("--key", "affinity_key", help="Affinity key: equal keys prefer one region."),
    click.option("--tenant", help="Whose task it is."),
    click.option(
        "--label", "labels", metavar="K=V", multiple=True, type=Label(), help="Fact for rules."
    ),
    click.option(
        "--residency", metavar="GROUP", multiple=True, help="Residency group it may not leave."
    ),
    click.option("--region", "pin_region", help="Run here and nowhere else."),
    click.option("--delay", type=Duration(), help="Earliest start from now, such as 30s or 2h."),
    click.option(
        "--expires",
        type=Duration(),
        metavar="DURATION",
        help="Start no attempt later than this from now.",
    ),
    click.option("--timeout", type=Duration(), help="Limit of one attempt."),
    click.option("--attempts", "max_attempts", type=click.IntRange(1), help="Attempts a region."),
    click.option(
        "--idempotency-key",
        help="Names the effect: a repeat for the same handler, queue and tenant gets the first "
        "task's id and runs nothing.",
    ),
    click.option("--request-id", help="Names this submit; minted when left out."),
    click.option("--content-type", help="Media type of the payload [default: application/json]."),
    click.option("--origin", "origin_region", help="Region you are in [default: the router's]."),
)


def task_options(command: F) -> F:
    """Add the flags of one task."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def to_options(flags: dict[str, Any]) -> "TaskOptions":
    """Keep the flags that were given."""
    options: TaskOptions = {}
    labels: tuple[tuple[str, str], ...] = flags.pop("labels", ())
    residency: tuple[str, ...] = flags.pop("residency", ())
    given: dict[str, str | int | timedelta] = {
        name: value for name, value in flags.items() if value is not None
    }
    options.update(given)  # type: ignore[typeddict-item]
    if labels:
        options["labels"] = dict(labels)
    if residency:
        options["residency"] = residency
    return options


def parse_json(raw: bytes) -> Any:
    """Give what a JSON text holds. Raises ValueError, in words, for what is none or not UTF-8."""
    try:
        return json.loads(raw.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start + 1}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def payload_of(text: str | None, content_type: str | None) -> bytes:
    """Read a payload from the command line, or from stdin for `-`. Checks that JSON is JSON."""
    # What is not UTF-8 in a command line comes as surrogates; these are the bytes themselves.
    raw = sys.stdin.buffer.read() if text == "-" else os.fsencode(text or "")
    if raw and (content_type or "application/json") == "application/json":
        try:
            parse_json(raw)
        except ValueError as error:
            problem = f'the payload is no JSON ({error}); quote it, as in \'{{"to": "a@b.c"}}\''
            raise click.UsageError(problem) from None
    return raw
