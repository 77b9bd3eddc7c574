"""tradewind explain: where a task would go, and why not elsewhere."""

from typing import TYPE_CHECKING, Any

import click

from tradewind.cli.options import payload_of, task_options, to_options
from tradewind.cli.outcome import DONE, FAILED
from tradewind.cli.session import examples, json_option, router_option, with_client

if TYPE_CHECKING:
    from rich.table import Table

    from tradewind.client import Route

_BAR = 20  # characters of a share of 100 %


@click.command(
    short_help="Show where a task would go, and why.",
    epilog=examples(
        "tradewind explain email.send --key user-42",
        "tradewind explain report.render --label data-class=pii-eu --origin us-east",
    ),
)
@click.argument("name")
@click.argument("payload", required=False, metavar="[JSON or -]")
@task_options
@router_option
@json_option
def explain(name: str, payload: str | None, router: str, *, as_json: bool, **flags: Any) -> int:
    """Show where such a task would go now, and every other region's score or exclusion.

    Stores nothing. Exits 1 if no region would take it.
    """
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    options = to_options(flags)
    args = payload_of(payload, options.get("content_type"))
    options.setdefault("content_type", "application/json")
    route = with_client(router, lambda client: client.explain(name, args, **options))
    if as_json:
        show.emit(route)
        return DONE if route.region else FAILED
    out = show.console()
    if route.region:
        out.print(f"[bold]{name}[/] goes to [bold green]{route.region}[/]: {route.rule}")
    else:
        out.print(f"[bold]{name}[/] goes [bold red]nowhere[/]: no region may take it now")
    out.print(route_table(route))
    if route.ledger_home:
        out.print(f"Repeats are recognised in {route.ledger_home}.")
    out.print(f"[dim]policy {route.policy_version}, partition {route.partition}[/]")
    return DONE if route.region else FAILED


def route_table(route: "Route") -> "Table":
    """Give every region, the chosen one first, the excluded ones last."""
    from rich.text import Text  # noqa: PLC0415 - rich is slow to import

    from tradewind.cli import show  # noqa: PLC0415

    made = show.table(
        *("", "region", "rtt", "expected wait", "start in", "share", "", "why not"),
        right=["rtt", "expected wait", "start in", "share"],
    )

    def rank(candidate: Any) -> tuple[bool, bool, float]:
        chosen = candidate.region == route.region
        return (not chosen, not candidate.eligible, candidate.score_s)

    for each in sorted(route.candidates, key=rank):
        chosen = each.region == route.region
        style = "bold green" if chosen else "" if each.eligible else "dim"
        cells = (
            "▸" if chosen else "",
            each.region,
            show.milliseconds(each.rtt_ms),
            show.seconds(each.expected_wait_s) if each.eligible else "-",
            show.seconds(each.score_s) if each.eligible else "-",
            f"{each.share:.0%}" if each.eligible else "-",
            "█" * round(each.share * _BAR),
            each.excluded_by,
        )
        made.add_row(*(Text(cell, style) for cell in cells))
    return made
