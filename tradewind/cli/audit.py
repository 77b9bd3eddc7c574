"""tradewind audit: who did what, when and why."""

from typing import TYPE_CHECKING

import click

from tradewind.cli.outcome import DONE
from tradewind.cli.session import examples, json_option, router_option, with_client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tradewind.cli.sheet import Sheet
    from tradewind.client import AuditEntry


@click.command(
    short_help="Show what operators did, and why.",
    epilog=examples("tradewind audit --limit 20", "tradewind audit --region us-east --json"),
)
@click.option("--region", default="", help="Only what this region keeps.")
@click.option(
    "--limit", default=100, show_default=True, type=click.IntRange(1, 1_000), help="At most."
)
@click.option(
    "--page-token", default="", metavar="TOKEN", help="Go on where the list before ended."
)
@router_option
@json_option
def audit(region: str, limit: int, page_token: str, router: str, *, as_json: bool) -> int:
    """Show what operators did, and what was done by their orders, latest first."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    page = with_client(
        router,
        lambda client: client.admin.audit(region, page_size=limit, page_token=page_token),
    )
    if as_json:
        show.emit(page)
        return DONE
    if page.records:
        show.console().print(audit_sheet(page.records))
    elif not page.silent_regions:
        click.echo("nothing was done")
    if page.next_page_token:
        click.echo(f"Older ones: --page-token {page.next_page_token}", err=True)
    show.warn_silent(page.silent_regions)
    return DONE


def audit_sheet(records: "Sequence[AuditEntry]") -> "Sheet":
    """Give a row for each record."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.sheet import Column, Sheet  # noqa: PLC0415

    made = Sheet(
        Column(f"at ({show.zone(*(each.at for each in records))})"),
        Column("kept in"),
        Column("what"),
        Column("on"),
        Column("tasks", folds=True, optional=True),
        Column("who", folds=True),
        Column("why", folds=True, optional=True),
    )
    for each in records:
        details = ", ".join(f"{name} {text}" for name, text in sorted(each.details.items()))
        made.add(
            show.day_and_time(each.at),
            each.region,
            each.deed,
            each.on,
            ", ".join(f"{name}: {count:,}" for name, count in sorted(each.counts.items())),
            each.who,
            each.why,
            below=[details] if details else [],
        )
    return made
