"""tradewind dlq: tasks that were given up."""

import click

from tradewind.cli.outcome import DONE
from tradewind.cli.session import examples, json_option, router_option, with_client

KINDS = ("exhausted", "timeout", "crashed", "rejected", "damaged")


@click.group()
def dlq() -> None:
    """Look at dead-lettered tasks."""


@dlq.command("list", epilog=examples("tradewind dlq list --region us-east --kind exhausted"))
@click.option("--region", default="", help="Only this region.")
@click.option("--queue", default="", help="Only this queue.")
@click.option("--name", default="", help="Only this handler.")
@click.option("--kind", default="", type=click.Choice(["", *KINDS]), help="Only this cause.")
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
    kind: str,
    error: str,
    limit: int,
    router: str,
    *,
    as_json: bool,
) -> int:
    """List dead tasks, newest first within a region, with the cause and why they stay."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.client import DeadFilter  # noqa: PLC0415 - gRPC is slow to import

    which = DeadFilter(region, queue, name, kind, error)
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
    made = show.table("task", "region", "queue", "name", "kind", "error", "died", "why it stays")
    for task in page.tasks:
        kind, message = (task.error.kind, task.error.message) if task.error else ("", "")
        made.add_row(
            task.task_id,
            task.region,
            task.queue,
            task.name,
            kind,
            show.first_line(message)[:80],
            show.clock(task.finished_at),
            task.failover or ("" if task.settled else "about to be moved"),
        )
    if page.tasks:
        show.console().print(made)
    click.echo(f"{len(page.tasks)} of {page.total} dead tasks")
    show.warn_silent(page.silent_regions)
    return DONE
