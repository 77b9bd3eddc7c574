"""tradewind regions, queues, workers: the fleet as tables."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from tradewind.cli.outcome import DONE
from tradewind.cli.session import examples, json_option, router_option, with_client

if TYPE_CHECKING:
    from tradewind.client import Admin

T = TypeVar("T")


def _ask(router: str, question: "Callable[[Admin], Awaitable[T]]") -> T:
    return with_client(router, lambda client: question(client.admin))


@click.command(
    short_help="Show regions: health, distance, load.",
    epilog=examples("tradewind regions --router 127.0.0.1:7070"),
)
@router_option
@json_option
def regions(router: str, *, as_json: bool) -> int:
    """Show every region: state, health, distance, expected wait, workers."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    found, silent = _ask(router, lambda admin: admin.regions())
    if as_json:
        show.emit({"regions": found, "silent_regions": silent})
        return DONE
    made = show.table(
        *("region", "state", "health", "rtt", "expected wait", "pending", "slots", "workers"),
        right=["rtt", "expected wait", "pending", "slots", "workers"],
    )
    for each in found:
        made.add_row(
            each.name,
            show.state(each.state),
            show.state(each.health),
            show.milliseconds(each.rtt_ms),
            show.seconds(each.expected_wait_s),
            f"{each.pending:,}",
            f"{each.live_slots:,}",
            str(each.workers),
        )
    show.console().print(made)
    show.warn_silent(silent)
    return DONE


@click.command(
    short_help="Show queues: what waits, runs, is dead.",
    epilog=examples("tradewind queues --queue default"),
)
@click.option("--region", default="", help="Only this region.")
@click.option("--queue", default="", help="Only this queue.")
@router_option
@json_option
def queues(region: str, queue: str, router: str, *, as_json: bool) -> int:
    """Show every queue in every region: what waits, runs, retries and is dead."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    found, silent = _ask(router, lambda admin: admin.queues(region, queue))
    if as_json:
        show.emit({"queues": found, "silent_regions": silent})
        return DONE
    numbers = ("high", "normal", "low", "delayed", "running", "retrying", "moving", "dead")
    made = show.table("region", "queue", *numbers, "oldest", right=[*numbers, "oldest"])
    for each in found:
        counts = (
            *(each.pending_high, each.pending_normal, each.pending_low, each.scheduled),
            *(each.processing, each.failed, each.moving, each.dead),
        )
        name = f"{each.queue} (paused)" if each.paused else each.queue
        oldest = show.seconds(each.oldest_age_s)
        made.add_row(each.region, name, *(f"{count:,}" for count in counts), oldest)
    show.console().print(made)
    show.warn_silent(silent)
    return DONE


@click.command(
    short_help="Show workers: what they run, how busy.",
    epilog=examples("tradewind workers --region eu-west"),
)
@click.option("--region", default="", help="Only this region.")
@router_option
@json_option
def workers(region: str, router: str, *, as_json: bool) -> int:
    """Show the live workers: what they run and how busy they are."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    found, silent = _ask(router, lambda admin: admin.workers(region))
    if as_json:
        show.emit({"workers": found, "silent_regions": silent})
        return DONE
    made = show.table("worker", "region", "queues", "handlers", "busy", "since", right=["busy"])
    for each in found:
        made.add_row(
            each.worker_id,
            each.region,
            ", ".join(each.queues),
            ", ".join(each.handlers),
            f"{each.busy}/{each.slots}",
            show.clock(each.started_at),
        )
    show.console().print(made)
    show.warn_silent(silent)
    return DONE
