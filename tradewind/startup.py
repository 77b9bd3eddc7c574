"""What the mains of router and worker do alike: read a command line, serve HTTP, run the loop."""

import argparse
import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from tradewind.errors import SetupError
from tradewind.fleet import Fleet
from tradewind.http import HttpServer, Ready, parse_address

T = TypeVar("T")

FAILED: Final = 1  # exit statuses, as of the command line (cli.outcome)
WRONG_USAGE: Final = 2
MAX_PROCESSES: Final = 256


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, on uvloop where there is one."""
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def run_parent(work: Coroutine[Any, Any, T]) -> T:
    """Run what starts processes to the end.

    Not on uvloop: that forks, and a copy of a process in which another thread is inside gRPC breaks
    both (gRPC's fork handlers). asyncio has subprocesses started by vfork, which copies nothing.
    """
    return asyncio.run(work)


def on_hangup(reload: Callable[[], None], stop: Callable[[], None]) -> None:
    """Have SIGHUP call `reload`; or `stop`, if it says that the terminal of this process is gone.

    Call it within the event loop. Whoever reads a file again on SIGHUP would otherwise outlive the
    window it was started in.
    """
    at_terminal = _is_terminal()

    def hung_up() -> None:
        if at_terminal and not _is_terminal():
            stop()
        else:
            reload()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # see hangups_held


@contextmanager
def hangups_held() -> Generator[None]:
    """What a process starts in here gets no SIGHUP before its `on_hangup`.

    It is one of many that are told to read a file again, and may not listen yet: it would end.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # passed on to it, through exec
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


def withstand_hangup() -> None:
    """Let no SIGHUP end this process from here on: until `on_hangup`, what it asks for is done."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _is_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False


def check_region(fleet: Fleet, region: str, config: str) -> None:
    """Raise SetupError unless the file `config`, read as `fleet`, has `region`."""
    if region not in fleet.regions:
        raise SetupError(f"{config} has no region {region}; it has {', '.join(fleet.regions)}")


def serve_http(
    address: str, ready: Ready, exposition: Callable[[], bytes], *, insecure_bind: bool
) -> HttpServer:
    """Serve metrics and probes. Raises SetupError if it cannot listen there."""
    http = HttpServer(address, ready=ready, metrics=exposition, insecure_bind=insecure_bind)
    http.start()
    return http


def address(text: str) -> str:
    """Check HOST:PORT, for argparse."""
    try:
        parse_address(text)
    except SetupError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def processes(text: str) -> int:
    """Read a number of processes, for argparse."""
    return whole(text, MAX_PROCESSES)


def whole(text: str, most: int) -> int:
    """Read a whole number from 1 to `most`, for argparse."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most}")
    return int(text)
