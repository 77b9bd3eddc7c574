"""tradewind up: embedded regions for development."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tradewind.cli.outcome import DONE, FAILED, Unusable
from tradewind.cli.session import examples

if TYPE_CHECKING:
    from tradewind.local.embedded import EmbeddedFleet

# What `up` runs in an empty folder.
ECHO_APP = f"{Path(__file__).with_name('echo.py')}:app"
STARTER = Path(__file__).with_name("starter.yaml")

# A start takes 3 s; on a busy machine, and the first time, a minute.
_TELL_EVERY_S = 5.0


@click.command(
    short_help="Run embedded regions on this machine.",
    epilog=examples(
        "tradewind up", "tradewind up --config regions.yaml --app myapp.tasks:app --wan"
    ),
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Regions to run [default: ./regions.yaml, or three built-in ones if there is none].",
)
@click.option(
    "--app",
    metavar="MODULE:NAME",
    help="App whose handlers the workers run; also ./file.py:NAME. Without it a built-in one with "
    "the tasks echo, sleep and fail.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".tradewind"),
    show_default=True,
    help="Redis data, logs and generated files. Kept between runs.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=7070,
    show_default=True,
    help="gRPC port of the router of the file's first region; the others take the next free ones.",
)
@click.option("--wan", is_flag=True, help="Delays between regions as in the file's rtt table.")
@click.option("--cluster", is_flag=True, help="Each region a Redis Cluster (not served yet).")
def up(
    config: Path | None,
    app: str | None,
    data_dir: Path,
    port: int,
    *,
    wan: bool,
    cluster: bool,
) -> int:
    """Run every region on this machine: a redis-server, a router and a worker pool each.

    Prints one line, `ready grpc=HOST:PORT http=HOST:PORT`, once every router sees every region's
    workers; the first region in the file serves there. Ctrl-C stops, a second one without waiting
    for running tasks. Changes of the file come into force within seconds, if it is in order, but
    for its addresses: Redis stays where it runs.

    To see a region fail, `touch .tradewind/down/REGION` takes its Redis away; `rm` brings it back.
    """
    if cluster:
        raise click.UsageError(
            "--cluster is not served yet: embedded regions are standalone servers in this release"
        )
    from tradewind import regions  # noqa: PLC0415 - slow to import
    from tradewind.local.embedded import EmbeddedFleet, EmbeddedOptions  # noqa: PLC0415

    if config is None:
        config = Path("regions.yaml") if Path("regions.yaml").exists() else STARTER
    options = EmbeddedOptions(
        config=config,
        app=app or ECHO_APP,
        data_dir=data_dir,
        port=port,
        wan=wan,
        redis_may_move=config == STARTER,  # nobody chose its ports, and nobody can change them
    )
    plan = regions.load(config)
    if app is not None:
        _check_app(app)
    fleet = EmbeddedFleet(
        plan,
        options,
        on_exit=lambda name, status: click.echo(f"{name} ended ({status})", err=True),
        on_restart=lambda name, pid: click.echo(f"{name} runs again (pid {pid})", err=True),
    )
    return asyncio.run(_serve(fleet, list(plan.regions), options.stop_grace_s))


def _check_app(app: str) -> None:
    """Have a worker import the app, before anything is started for it. Raises Unusable."""
    command = [sys.executable, "-P", "-m", "worker", "--check-app", app]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if done.returncode:
        # Last: the app itself may have written something before.
        *_, said = ["", *done.stderr.strip().splitlines()]
        said = said.removeprefix("tradewind worker: ")
        raise Unusable(said or f"--app {app}: importing it ended with status {done.returncode}")


async def _serve(fleet: "EmbeddedFleet", regions: Sequence[str], grace_s: float) -> int:
    from tradewind.startup import on_hangup  # noqa: PLC0415 - as above

    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            fleet.hurry()
            return
        stop.set()
        said = f"stopping; waiting up to {grace_s:g} s for running tasks (Ctrl-C again: now)"
        click.echo(said, err=True)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    on_hangup(fleet.reload, on_signal)
    starting = asyncio.create_task(start(fleet, regions))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # Ctrl-C while it starts
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return FAILED
        await starting
        _announce(fleet)
        following = asyncio.create_task(fleet.follow(lambda said: click.echo(said, err=True)))
        await asyncio.wait({stopping, following}, return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            following.result()
        following.cancel()
    finally:
        stopping.cancel()
        await fleet.stop()
    return DONE


async def start(fleet: "EmbeddedFleet", regions: Sequence[str]) -> None:
    """Start the fleet, and say on stderr what takes long. Raises LocalSetupError."""
    telling = asyncio.create_task(_tell_progress(fleet, regions))
    try:
        await fleet.start()
        await fleet.until_served()
    finally:
        telling.cancel()


async def _tell_progress(fleet: "EmbeddedFleet", regions: Sequence[str]) -> None:
    """Say on stderr what is going on: nobody should have to guess."""
    began_s = time.monotonic()
    await fleet.prepared.wait()  # what cannot even begin is one sentence
    click.echo(f"starting {', '.join(regions)}; what they log is in {fleet.log_dir}", err=True)
    while True:
        await asyncio.sleep(_TELL_EVERY_S)
        waited_s = time.monotonic() - began_s
        click.echo(f"starting for {waited_s:.0f} s; still waiting for: {fleet.missing}", err=True)


def _announce(fleet: "EmbeddedFleet") -> None:
    endpoints = list(fleet.endpoints.values())
    for each in endpoints:
        click.echo(
            f"{each.region}: grpc={each.grpc} http={each.http} redis={each.redis_url}", err=True
        )
    click.echo(f"to take a region's Redis away: touch {fleet.outage_dir}/REGION", err=True)
    click.echo(f"logs: {fleet.log_dir}; Ctrl-C stops", err=True)
    # Alone on stdout: the line that scripts wait for.
    click.echo(f"ready grpc={endpoints[0].grpc} http={endpoints[0].http}")
