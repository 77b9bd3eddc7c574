"""tradewind explain: where a task would go, and why not elsewhere."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tradewind.cli.options import payload_of, task_options, to_options
from tradewind.cli.outcome import DONE, FAILED
from tradewind.cli.session import examples, json_option, router_option, with_client
from tradewind.cli.unserved import UNSERVED
from tradewind.policy import filters

if TYPE_CHECKING:
    from rich.text import Text

    from tradewind.cli.sheet import Sheet
    from tradewind.client import Route

_BAR = 10  # characters of a share of 100 %
# Steps that decide where no rule of the policy file matches; other names are those of rules.
_STEPS = {
    "pin": "the region it asks for",
    "affinity": "the region of its key",
    "prefer": "the first that its rule prefers",
    "ledger": "as good as the best, and it recognises repeats",
    "home": "the nearest",
    "spill": "it would start sooner than in the nearest",
    "failover": "the others are out, and failover.order names it",
    "trial": "whether it is well again is tried with one task at a time",
    "panic": "none is known to be able to run it, this one may be",
    UNSERVED: "no live worker runs it",
}


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
    out.print(headline(name, route))
    if route.region and route.rule == UNSERVED:
        queue = options.get("queue", "default")
        out.print(f"It would wait there until a worker of queue {queue} runs it.")
    out.print()
    out.print(route_sheet(route))
    out.print()
    if fence := fence_text(route, options.get("residency", ())):
        out.print(fence)
    if route.ledger_home:
        out.print(f"Repeats are recognised in {route.ledger_home}.")
    out.print(show.text(f"policy {route.policy_version}, partition {route.partition}", "dim"))
    return DONE if route.region else FAILED


def headline(name: str, route: "Route") -> "Text":
    """Give the answer in a line."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    said = show.text(name, "bold")
    if route.region:
        said.append(" goes to ").append_text(show.text(route.region, "bold green"))
        step = _STEPS.get(route.rule)
        return said.append_text(show.text(f": {route.rule}" + (f" ({step})" if step else "")))
    said.append(" goes ").append("nowhere", "bold red").append(": no region may take it now")
    return said.append_text(show.text(f" ({route.rule})" if route.rule else ""))


def fence_text(route: "Route", own: Sequence[str]) -> str:
    """Say who drew the fence that excludes a region; `own` is what the task itself asks for."""
    reasons = [each.excluded_by for each in route.candidates]
    outside = {reason for reason in reasons if _is_fence(reason)}
    if not outside:
        return ""
    for reason in outside:
        _, colon, why = reason.partition(": ")
        if colon:  # fences that exclude each other: every region says the same
            return f"The fence: {why}."
    drawn = [] if route.rule in {"", *_STEPS} else [f"rule {route.rule}"]
    drawn += [f"the task's own [{', '.join(own)}]"] if own else []
    return f"The fence: by {' and '.join(drawn)}." if drawn else ""


def _is_fence(reason: str) -> bool:
    return reason.partition(": ")[0] == filters.OUTSIDE_FENCE


def route_sheet(route: "Route") -> "Sheet":
    """Give every region, the chosen one first, the excluded ones last."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.sheet import Column, Sheet  # noqa: PLC0415

    made = Sheet(
        Column(""),
        Column("region"),
        Column("rtt", right=True),
        Column("wait", right=True),
        Column("start in", right=True),
        Column("share", right=True),
        Column("", decor=True),
        Column("why not", folds=True),
    )

    def rank(candidate: Any) -> tuple[bool, bool, float]:
        chosen = candidate.region == route.region
        return (not chosen, not candidate.eligible, candidate.score_s)

    for each in sorted(route.candidates, key=rank):
        chosen = each.region == route.region
        style = "bold green" if chosen else "" if each.eligible else "dim"
        starts = each.eligible and each.excluded_by not in filters.NOBODY_RUNS_IT
        cells = (
            "▸" if chosen else "",
            each.region,
            show.milliseconds(each.rtt_ms or None),  # 0: nothing was measured
            show.seconds(each.expected_wait_s) if starts else "-",
            show.seconds(each.score_s) if starts else "-",
            f"{each.share:.0%}" if each.eligible else "-",
            "█" * round(each.share * _BAR),
            filters.OUTSIDE_FENCE if _is_fence(each.excluded_by) else each.excluded_by,
        )
        made.add(*(show.text(cell, style) for cell in cells))
    return made
