"""tradewind router, tradewind worker: become the service."""

import os
import sys
from typing import Any

import click

_PASS_ON: dict[str, Any] = {
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}


@click.command(
    context_settings=_PASS_ON, add_help_option=False, short_help="Run a gateway of one region."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def router(arguments: tuple[str, ...]) -> None:
    """Run a router: the gateway that takes tasks by gRPC (see `tradewind router --help`)."""
    _become("router", arguments)


@click.command(
    context_settings=_PASS_ON, add_help_option=False, short_help="Run a worker pool of one region."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def worker(arguments: tuple[str, ...]) -> None:
    """Run a worker pool of one region (see `tradewind worker --help`)."""
    _become("worker", arguments)


def _become(module: str, arguments: tuple[str, ...]) -> None:
    # -P keeps the working directory off the path: a user's own worker.py must not shadow ours.
    command = [sys.executable, "-P", "-m", module, *arguments]
    os.execv(sys.executable, command)  # noqa: S606 - no shell is wanted
