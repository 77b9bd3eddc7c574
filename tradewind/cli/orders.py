"""tradewind drain, cordon, activate, pause, resume: what regions and queues may do."""

import getpass
import socket
from typing import TYPE_CHECKING

import click

from tradewind.cli.outcome import DONE
from tradewind.cli.session import examples, json_option, router_option, with_client
from tradewind.cli.text import one_line
from tradewind.cli.unserved import hint_unknown_queue

if TYPE_CHECKING:
    from tradewind.client import Client
    from tradewind.client.admin_views import QueueOrdered

_MEANS = {
    "ACTIVE": "it takes new work and starts what waits",
    "CORDONED": "nothing new comes in; what is there goes on",
    "DRAINING": "nothing new comes in and nothing starts; what runs goes on, what waits stays",
}

_region = click.argument("region")
_queue = click.argument("queue")
reason_option = click.option("--reason", default="", help="Why, for those who read it later.")
_force = click.option(
    "--force",
    is_flag=True,
    help="Also if a fence is left without a region that takes work, and with fewer regions than a "
    "majority. A change made elsewhere meanwhile may be undone.",
)


@click.command(
    short_help="Let nothing start in a region.",
    epilog=examples("tradewind drain us-east --reason 'disk is full'"),
)
@_region
@reason_option
@_force
@router_option
@json_option
def drain(region: str, reason: str, router: str, *, force: bool, as_json: bool) -> int:
    """Take a region out: nothing new comes in, nothing starts, what runs goes on.

    Done once most regions and this one hold it, and its workers obey.
    """
    return _order(router, region, "DRAINING", reason, force=force, as_json=as_json)


@click.command(
    short_help="Let nothing new into a region.",
    epilog=examples("tradewind cordon us-east --reason 'upgrade at noon'"),
)
@_region
@reason_option
@_force
@router_option
@json_option
def cordon(region: str, reason: str, router: str, *, force: bool, as_json: bool) -> int:
    """Send new work elsewhere; what is in the region already goes on there."""
    return _order(router, region, "CORDONED", reason, force=force, as_json=as_json)


@click.command(
    short_help="Let a region work again.",
    epilog=examples("tradewind activate us-east"),
)
@_region
@reason_option
@click.option("--force", is_flag=True, help="Also with fewer regions than a majority.")
@router_option
@json_option
def activate(region: str, reason: str, router: str, *, force: bool, as_json: bool) -> int:
    """End a drain, a cordon and an evacuation of a region."""
    return _order(router, region, "ACTIVE", reason, force=force, as_json=as_json)


@click.command(
    short_help="Let nothing of a queue start.",
    epilog=examples("tradewind pause reports"),
)
@_queue
@reason_option
@router_option
@json_option
def pause(queue: str, reason: str, router: str, *, as_json: bool) -> int:
    """Start no task of a queue, in any region. It still takes new tasks, and what runs goes on."""

    async def ask(client: "Client") -> "QueueOrdered":
        await hint_unknown_queue(client, queue)
        return await client.admin.pause(queue, reason=reason, by=me())

    return _told(queue, with_client(router, ask), paused=True, as_json=as_json)


@click.command(
    short_help="Let a paused queue start again.",
    epilog=examples("tradewind resume reports"),
)
@_queue
@reason_option
@router_option
@json_option
def resume(queue: str, reason: str, router: str, *, as_json: bool) -> int:
    """Start tasks of a queue again, in every region."""

    async def ask(client: "Client") -> "QueueOrdered":
        done = await client.admin.resume(queue, reason=reason, by=me())
        if done.stood:
            await hint_unknown_queue(client, queue)
        return done

    return _told(queue, with_client(router, ask), paused=False, as_json=as_json)


def _order(router: str, region: str, state: str, reason: str, *, force: bool, as_json: bool) -> int:
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    found = with_client(
        router,
        lambda client: client.admin.set_region_state(
            region, state, reason=reason, force=force, by=me()
        ),
    )
    if as_json:
        show.emit({"region": found})
    else:
        state = f"{found.state}{_already(stood=found.stood)} (epoch {found.epoch})"
        click.echo(one_line(f"{found.name} is {state}: {_MEANS[found.state]}"))
    return DONE


def _told(queue: str, done: "QueueOrdered", *, paused: bool, as_json: bool) -> int:
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    if as_json:
        show.emit({"queue": queue, "paused": paused, "epoch": done.epoch, "stood": done.stood})
        return DONE
    state = "is paused in every region" if paused else "starts tasks again"
    if done.stood and not paused:
        state = "was not paused"
    stood = _already(stood=done.stood and paused)
    click.echo(one_line(f"{queue} {state}{stood} (epoch {done.epoch})"))
    return DONE


def _already(*, stood: bool) -> str:
    return ", as it was already" if stood else ""


def me() -> str:
    """Who sits here, for those who read the order later."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # no such user, as in some containers
        name = "somebody"
    return f"{name}@{socket.gethostname()}"
