"""What the mains of router and worker do alike: read a command line, serve HTTP, run the loop."""

import argparse
import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from tradewind.errors import SetupError
from tradewind.fleet import Fleet
from tradewind.http import HttpServer, Ready, parse_address

T = TypeVar("T")

FAILED: Final = 1  # exit statuses of contract section 2
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
