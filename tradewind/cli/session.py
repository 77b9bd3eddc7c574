"""What commands that talk to a router share: options, a connected client, durations."""

import asyncio
import logging
import math
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tradewind.cli.flags import with_arguments
from tradewind.cli.text import one_line
from tradewind.errors import InvalidTask

if TYPE_CHECKING:  # gRPC takes longer to import than --help may take
    from tradewind.client import Client

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_ROUTER = "127.0.0.1:7070"

# A router on this machine answers in milliseconds, one across an ocean in half a second.
_CONNECT_S = 5.0

# A person wonders after a second or two; what is slow without a cause is said before that.
_QUIET_S = 2.0

# As long as a call waits: what is said once more after that is news.
_AGAIN_S = 30.0

# As in regions.yaml (tradewind/regions/units.py), which takes longer to import than --help may.
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)")
_LONGEST_S = 315_576_000_000  # 10,000 years: google.protobuf.Duration holds no more
_SUCH_AS = "250ms, 30s, 5m, 24h or 14d"


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


def with_client(
    router: str,
    work: "Callable[[Client], Awaitable[T]]",
    *,
    may_wait: bool = False,
    within_s: float = math.inf,
) -> T:
    """Run `work` with a client that is connected `within_s`, or in 5 s. Raises RouterUnreachable.

    To be called by a command: errors name its arguments.

    A router that is slow to connect or, unless `work` itself `may_wait`, to answer gets a word.
    """
    from tradewind.client import Client  # noqa: PLC0415 - see above
    from tradewind.client.repeats import LOGGER  # noqa: PLC0415 - see above

    log = logging.getLogger(LOGGER)
    log.setLevel(logging.INFO)
    aside = _Aside()
    log.addHandler(aside)

    async def session() -> T:
        async with Client(router) as client:
            async with slow(f"Still connecting to the router at {router}."):
                await client.connect(min(_CONNECT_S, within_s))
            if may_wait:
                return await work(client)
            said = f"Still waiting for an answer of the router at {router}."
            async with slow(said, unless=lambda: aside.has_spoken):
                return await work(client)

    try:
        return asyncio.run(session())
    except InvalidTask as error:
        raise with_arguments(error, click.get_current_context().command) from None
    finally:
        log.removeHandler(aside)


@asynccontextmanager
async def slow(said: str, *, unless: Callable[[], bool] = lambda: False) -> AsyncGenerator[None]:
    """Say so on stderr, once, if the block takes long: nobody should have to guess.

    `unless`: something better was said by then.
    """

    def tell() -> None:
        if not unless():
            click.echo(one_line(said), err=True)

    timer = asyncio.get_running_loop().call_later(_QUIET_S, tell)
    try:
        yield
    finally:
        timer.cancel()


class _Aside(logging.Handler):
    """What a client waits for, on stderr: a long silence needs a word, on a terminal or not."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        super().__init__()
        self._said_at: dict[str, float] = {}

    @property
    def has_spoken(self) -> bool:
        """Whether there was anything to say."""
        return bool(self._said_at)

    def emit(self, record: logging.LogRecord) -> None:
        """Print one sentence, and of many that wait for the same only the first one's."""
        text, now = one_line(record.getMessage()), time.monotonic()
        if now - self._said_at.get(text, -math.inf) >= _AGAIN_S:
            self._said_at[text] = now
            click.echo(f"{text[:1].upper()}{text[1:]}.", err=True)


class Duration(click.ParamType[timedelta]):
    """`250ms`, `30s`, `5m`, `24h`, `14d`; with its unit, as in regions.yaml."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Read the text. Fails with what is expected."""
        if isinstance(value, timedelta):
            return value
        match = _DURATION.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is no duration: write {_SUCH_AS}", param, ctx)
        seconds = float(match[1]) * _UNITS_S[match[2]]
        if seconds > _LONGEST_S:
            self.fail(f"{value!r} is too long: write {_SUCH_AS}", param, ctx)
        return timedelta(seconds=seconds)
