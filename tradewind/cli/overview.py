"""tradewind regions, queues, workers: the fleet as tables."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from tradewind.cli.outcome import DONE
from tradewind.cli.session import examples, json_option, router_option, with_client
from tradewind.cli.text import with_detail
from tradewind.cli.unserved import hint_unknown_queue
from tradewind.policy import filters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tradewind.cli.sheet import Sheet
    from tradewind.client import Admin, Client, QueueStatus, RegionStatus, WorkerStatus

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
    """Show every region as the router sees it: state, health, distance, expected wait, workers.

    HALF_OPEN: it was down, and is tried with one task at a time. KEPT_OUT: it flapped, and gets
    nothing that may go elsewhere, though it answers. `age` is that of what is known of its load; of
    a region that does not answer the numbers before it are left out (--json has the last ones).
    """
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    found, silent = _ask(router, lambda admin: admin.regions())
    if as_json:
        show.emit({"regions": found, "silent_regions": silent})
        return DONE
    show.console().print(regions_sheet(found, silent))
    show.warn_silent(silent, "how much there is to do there is not known now")
    return DONE


def regions_sheet(found: "Sequence[RegionStatus]", silent: "Sequence[str]" = ()) -> "Sheet":
    """Give a row for each region; without the load of those that are silent."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.sheet import Column, Sheet  # noqa: PLC0415

    made = Sheet(
        Column("region"),
        Column("state"),
        Column("health"),
        *(Column(title, right=True) for title in ("rtt", "wait", "pending", "slots", "workers")),
        Column("age", right=True),
    )
    for each in found:
        load = (
            show.seconds(each.expected_wait_s),
            f"{each.pending:,}",
            f"{each.live_slots:,}",
            str(each.workers),
        )
        notes = _notes(each)
        is_heard = each.name not in silent
        made.add(
            each.name,
            show.state(each.state),
            show.state(health_text(each)),
            show.milliseconds(each.rtt_ms),
            *(load if is_heard else "-" * len(load)),
            show.seconds(each.age_s),
            below=[show.text(line, "dim") for line in notes],
        )
    return made


def _notes(region: "RegionStatus") -> list[str]:
    """Say what keeps new tasks out, as far as the row does not."""
    said = region.details
    why = [with_detail(each, said) for each in region.reasons if each not in _NOT_OF_ALL]
    notes = [f"takes no new tasks: {', '.join(why)}"] if why else []
    down = [each for each in (filters.DOWN, filters.KEPT_OUT) if each in region.reasons]
    notes += [with_detail(each, said) for each in down if each in said]
    if filters.DURABILITY in region.reasons:
        cause = said.get(filters.DURABILITY, "its Redis cannot keep them")
        notes.append(f"takes no tasks of queues with durability {cause}; see `tradewind doctor`")
    return notes


def health_text(region: "RegionStatus") -> str:
    """Name how the router judges it; of one that is down, whether and how that ends."""
    if region.trial:
        return "HALF_OPEN"
    return "KEPT_OUT" if filters.KEPT_OUT in region.reasons else region.health


# What speaks against a region and is shown as its state, health or age.
_IN_THE_ROW = filters.BY_OPERATOR | frozenset(
    {filters.DOWN, filters.KEPT_OUT, filters.HALF_OPEN, filters.UNKNOWN}
)


_NOT_OF_ALL = _IN_THE_ROW | {filters.DURABILITY}


@click.command(
    short_help="Show queues: what waits, runs, is dead.",
    epilog=examples("tradewind queues --queue default"),
)
@click.option("--region", default="", help="Only this region.")
@click.option("--queue", default="", help="Only this queue.")
@router_option
@json_option
def queues(region: str, queue: str, router: str, *, as_json: bool) -> int:
    """Show every queue in every region: what waits (by priority), runs, retries and is dead.

    Where the terminal is narrow, columns that are 0 in every row are left out.
    """
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    async def ask(client: "Client") -> "tuple[list[QueueStatus], tuple[str, ...]]":
        found, silent = await client.admin.queues(region, queue)
        if not found:
            await hint_unknown_queue(client, queue)
        return found, silent

    found, silent = with_client(router, ask)
    if as_json:
        show.emit({"queues": found, "silent_regions": silent})
        return DONE
    show.console().print(queues_sheet(found))
    show.warn_silent(silent)
    return DONE


def queues_sheet(found: "Sequence[QueueStatus]") -> "Sheet":
    """Give a row for each region and queue."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.sheet import Column, Sheet  # noqa: PLC0415

    made = Sheet(
        Column("region"),
        Column("queue"),
        Column("high", right=True, optional=True),
        Column("normal", right=True),
        Column("low", right=True, optional=True),
        Column("delayed", right=True, optional=True),
        Column("running", right=True),
        Column("retry", right=True, optional=True),
        Column("moving", right=True, optional=True),
        Column("dead", right=True),
        Column("oldest", right=True),
    )
    for each in found:
        counts = (
            *(each.pending_high, each.pending_normal, each.pending_low, each.scheduled),
            *(each.processing, each.failed, each.moving, each.dead),
        )
        name = f"{each.queue} (paused)" if each.paused else each.queue
        oldest = show.seconds(each.oldest_age_s)
        made.add(each.region, name, *(f"{count:,}" for count in counts), oldest)
    return made


@click.command(
    short_help="Show workers: what they run, how busy.",
    epilog=examples("tradewind workers --region eu-west"),
)
@click.option("--region", default="", help="Only this region.")
@router_option
@json_option
def workers(region: str, router: str, *, as_json: bool) -> int:
    """Show the live workers: what they run and how many of their slots are busy.

    Suspects, tasks with a crash behind them, take no slot: they run in child processes beside them,
    and `tradewind queues` counts them as running.
    """
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    found, silent = _ask(router, lambda admin: admin.workers(region))
    if as_json:
        show.emit({"workers": found, "silent_regions": silent})
        return DONE
    show.console().print(workers_sheet(found))
    show.warn_silent(silent)
    return DONE


def workers_sheet(found: "Sequence[WorkerStatus]") -> "Sheet":
    """Give a row for each worker, and what it runs under it."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.sheet import Column, Sheet  # noqa: PLC0415

    zone = show.zone(*(each.started_at for each in found))
    made = Sheet(
        Column("worker"),
        Column("region"),
        Column("busy", right=True),
        Column(f"since ({zone})" if zone else "since"),
    )
    for each in found:
        made.add(
            each.worker_id,
            each.region,
            f"{each.busy}/{each.slots}",
            show.day_and_time(each.started_at),
            below=(f"{', '.join(each.queues)}: {', '.join(each.handlers)}",),
        )
    return made
