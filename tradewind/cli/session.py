"""What commands that talk to a router share: options, a connected client, durations."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tradewind.cli.text import one_line

if TYPE_CHECKING:  # gRPC takes longer to import than --help may take
    from tradewind.client import Client

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_ROUTER = "127.0.0.1:7070"

# A router on this machine answers in milliseconds, one across an ocean in half a second.
_CONNECT_S = 5.0

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def examples(*lines: str) -> str:
    """Give the epilog of a command's help: command lines as they are, not wrapped."""
    title = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join(["\b", title, *(f"  {line}" for line in lines)])


def router_option(command: F) -> F:
    """Add --router."""
    return click.option(
        "--router",
        metavar="HOST:PORT",
        envvar="TRADEWIND_ROUTER",
        default=DEFAULT_ROUTER,
        show_default=True,
        show_envvar=True,
        help="Router to talk to.",
    )(command)


def json_option(command: F) -> F:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        command
    )


def with_client(router: str, work: "Callable[[Client], Awaitable[T]]") -> T:
    """Run `work` with a client that is connected. Raises RouterUnreachable."""
    from tradewind.client import Client  # noqa: PLC0415 - see above
    from tradewind.client.repeats import LOGGER  # noqa: PLC0415 - see above

    log = logging.getLogger(LOGGER)
    log.setLevel(logging.INFO)
    if not log.handlers:
        log.addHandler(_Aside())

    async def session() -> T:
        async with Client(router) as client:
            await client.connect(_CONNECT_S)
            return await work(client)

    return asyncio.run(session())


class _Aside(logging.Handler):
    """What a client waits for, on stderr: a long silence needs a word, on a terminal or not."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one sentence."""
        text = one_line(record.getMessage())
        click.echo(f"{text[:1].upper()}{text[1:]}.", err=True)


class Duration(click.ParamType[timedelta]):
    """`250ms`, `30s`, `5m`, `24h`, `7d`; with its unit, as in regions.yaml."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Read the text. Fails with what is expected."""
        if isinstance(value, timedelta):
            return value
        match = _DURATION.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is no duration: write 250ms, 30s, 5m or 24h", param, ctx)
        return timedelta(seconds=float(match[1]) * _UNITS_S[match[2]])
