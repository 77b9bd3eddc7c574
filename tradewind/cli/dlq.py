"""tradewind dlq: tasks that were given up."""

from typing import TYPE_CHECKING

import click

from tradewind.cli.outcome import DONE
from tradewind.cli.session import examples, json_option, router_option, with_client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tradewind.cli.sheet import Sheet
    from tradewind.client import TaskView

KINDS = ("exhausted", "timeout", "crashed", "rejected", "damaged")


@click.group()
def dlq() -> None:
    """Look at dead-lettered tasks."""


@dlq.command(
    "list",
    short_help="List dead tasks and why they stay.",
    epilog=examples("tradewind dlq list --region us-east --kind exhausted"),
)
@click.option("--region", default="", help="Only this region.")
@click.option("--queue", default="", help="Only this queue.")
@click.option("--name", default="", help="Only this handler.")
@click.option("--kind", type=click.Choice(KINDS), help="Only this cause.")
@click.option("--error", default="", metavar="TEXT", help="Only if the error contains TEXT.")
@click.option(
    "--limit", default=100, show_default=True, type=click.IntRange(1, 1_000), help="At most."
)
@router_option
@json_option
def list_dead(
    region: str,
    queue: str,
    name: str,
    kind: str | None,
    error: str,
    limit: int,
    router: str,
    *,
    as_json: bool,
) -> int:
    """List dead tasks, newest first within a region, with the cause and why they stay."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.client import DeadFilter  # noqa: PLC0415 - gRPC is slow to import

    which = DeadFilter(region, queue, name, kind or "", error)
    page = with_client(router, lambda client: client.admin.dead_tasks(which, page_size=limit))
    if as_json:
        show.emit(
            {
                "tasks": [show.task_json(task) for task in page.tasks],
                "total": page.total,
                "next_page_token": page.next_page_token,
                "silent_regions": page.silent_regions,
            }
        )
        return DONE
    if page.tasks:
        show.console().print(dead_sheet(page.tasks))
    click.echo(f"{len(page.tasks)} of {page.total} dead {'task' if page.total == 1 else 'tasks'}")
    show.warn_silent(page.silent_regions)
    return DONE


def dead_sheet(tasks: "Sequence[TaskView]") -> "Sheet":
    """Give a row for each task; under it what it died of, and why it stays."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.sheet import Column, Sheet  # noqa: PLC0415
    from tradewind.cli.tasks import failure_text  # noqa: PLC0415

    zone = show.zone(*(task.finished_at for task in tasks))
    made = Sheet(
        Column("task"),
        Column("region"),
        Column("queue", folds=True),
        Column("name", folds=True),
        Column(f"died ({zone})" if zone else "died"),
    )
    for task in tasks:
        stays = task.failover or ("" if task.settled else "about to be moved")
        made.add(
            task.task_id,
            task.region,
            task.queue,
            task.name,
            show.day_and_time(task.finished_at),
            below=[
                *([show.first_line(failure_text(task))] if task.error else []),
                *([f"stays: {stays}" if task.failover else stays] if stays else []),
            ],
        )
    return made
