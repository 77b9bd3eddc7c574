"""tradewind up: embedded regions for development."""

import asyncio
import shlex
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
    from tradewind.fleet import Fleet, RedisTarget
    from tradewind.local.embedded import EmbeddedFleet, EmbeddedOptions

# What `up` runs in an empty folder.
ECHO_APP = f"{Path(__file__).with_name('echo.py')}:app"
STARTER = Path(__file__).with_name("starter.yaml")

# A start takes 3 s; on a busy machine, and the first time, a minute.
_TELL_EVERY_S = 5.0


@click.command(
    short_help="Run embedded regions on this machine.",
    epilog=examples(
        "tradewind up",
        "tradewind up --config regions.yaml --app myapp.tasks:app --wan",
        "tradewind up --cluster --replicas --wan",
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
@click.option("--cluster", is_flag=True, help="Each region a Redis Cluster of three primaries.")
@click.option(
    "--replicas",
    is_flag=True,
    help="A replica for each primary, which takes over when it dies: in a Cluster by itself, "
    "without --cluster by three Sentinels.",
)
def up(
    config: Path | None,
    app: str | None,
    data_dir: Path,
    port: int,
    *,
    wan: bool,
    cluster: bool,
    replicas: bool,
) -> int:
    """Run every region on this machine: a redis-server, a router and a worker pool each.

    Prints one line, `ready grpc=HOST:PORT http=HOST:PORT`, once every router sees every region's
    workers; the first region in the file serves there. Ctrl-C stops, a second one without waiting
    for running tasks. Changes of the file come into force within seconds, if it is in order, but
    for its addresses: Redis stays where it runs.

    To see a region fail, `touch .tradewind/down/REGION` takes its Redis away; `rm` brings it back.
    Of several servers `touch .tradewind/down/redis-REGION.1` takes one. Each form of Redis (alone,
    with replicas, Cluster, Cluster with replicas) keeps data of its own.
    """
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
        cluster=cluster,
        replicas=replicas,
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
    return asyncio.run(_serve(fleet, plan, options))


def _check_app(app: str) -> None:
    """Have a worker import the app, before anything is started for it. Raises Unusable."""
    command = [sys.executable, "-P", "-m", "worker", "--check-app", app]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if done.returncode:
        # Last: the app itself may have written something before.
        *_, said = ["", *done.stderr.strip().splitlines()]
        said = said.removeprefix("tradewind worker: ")
        raise Unusable(said or f"--app {app}: importing it ended with status {done.returncode}")


async def _serve(fleet: "EmbeddedFleet", plan: "Fleet", options: "EmbeddedOptions") -> int:
    from tradewind.startup import on_hangup  # noqa: PLC0415 - as above

    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            fleet.hurry()
            return
        stop.set()
        wait = f"waiting up to {options.stop_grace_s:g} s for running tasks"
        click.echo(f"stopping; {wait} (Ctrl-C again: now)", err=True)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    on_hangup(fleet.reload, on_signal)
    starting = asyncio.create_task(start(fleet, list(plan.regions)))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # Ctrl-C while it starts
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return FAILED
        await starting
        _announce(fleet, plan, options.config)
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


def _announce(fleet: "EmbeddedFleet", plan: "Fleet", config: Path) -> None:
    endpoints = list(fleet.endpoints.values())
    for each in endpoints:
        at = f"grpc={each.grpc} http={each.http} redis={_described(each.redis)}"
        click.echo(f"{each.region}: {at}", err=True)
    if any(each.redis != plan.regions[each.region].redis for each in endpoints):
        from tradewind.policy_file import REDIS_AT  # noqa: PLC0415 - as above

        found = f'{REDIS_AT}="$(cat {shlex.quote(str(fleet.redis_at_file))})"'
        doctor = f"tradewind doctor --config {shlex.quote(str(config))}"
        click.echo(f"to check them: {found} {doctor}", err=True)
    click.echo(f"to take a region's Redis away: touch {fleet.outage_dir}/REGION", err=True)
    click.echo(f"logs: {fleet.log_dir}; Ctrl-C stops", err=True)
    # Alone on stdout: the line that scripts wait for.
    click.echo(f"ready grpc={endpoints[0].grpc} http={endpoints[0].http}")


def _described(target: "RedisTarget") -> str:
    """As regions.yaml writes it."""
    if target.kind == "standalone":
        return f"redis://{target.nodes[0]}"
    service = f", service: {target.service}" if target.service else ""
    return f"{{{target.kind}: [{', '.join(target.nodes)}]{service}}}"
