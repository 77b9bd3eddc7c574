"""tradewind explain: where a task would go, and why not elsewhere."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tradewind.cli.options import payload_of, task_options, to_options
from tradewind.cli.outcome import DONE, FAILED
from tradewind.cli.session import examples, json_option, router_option, with_client
from tradewind.cli.unserved import UNSERVED
from tradewind.policy.choose import NOWHERE

if TYPE_CHECKING:
    from rich.text import Text

    from tradewind.client import Route

_HOME = "home"
# Steps that decide where no rule of the policy file matches; other names are those of rules.
_STEPS = {
    "pin": "the region it asks for",
    "affinity": "the region of its key",
    "prefer": "the first that its rule prefers",
    "ledger": "as good as the best, and it recognises repeats",
    _HOME: "the nearest",
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
    from tradewind.cli.route_sheet import route_sheet  # noqa: PLC0415

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
    if regime := regime_text(route):
        out.print(show.text(regime))
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
        return said.append_text(show.text(f": {_decided(route)}"))
    said.append(" goes ").append("nowhere", "bold red").append(": no region may take it now")
    why = "" if route.rule in {"", NOWHERE} else f" ({route.rule})"
    return said.append_text(show.text(why))


def _decided(route: "Route") -> str:
    """Name what decided; behind a rule, the step that took the region of those it leaves open."""
    step = route.step or route.rule
    said = _STEPS.get(step, "")
    if route.spills and step == _HOME:
        said = f"{said}, drawn by its share"
    if route.rule in {step, ""}:
        return f"{step} ({said})" if said else step
    return f"{route.rule}, then {step} ({said})" if said else route.rule


def regime_text(route: "Route") -> str:
    """Say whether such tasks stay at home now; nothing where distance had no part in it."""
    if not route.home:
        return ""
    if route.spills:
        return f"Home is {route.home}; tasks leave it now, each for a region drawn by its share."
    return f"Home is {route.home}; tasks stay there."


def fence_text(route: "Route", own: Sequence[str]) -> str:
    """Say who drew the fence that excludes a region; `own` is what the task itself asks for."""
    from tradewind.cli.route_sheet import is_fence  # noqa: PLC0415 - rich is slow to import

    reasons = [each.excluded_by for each in route.candidates]
    outside = {reason for reason in reasons if is_fence(reason)}
    if not outside:
        return ""
    for reason in outside:
        _, colon, why = reason.partition(": ")
        if colon:  # fences that exclude each other: every region says the same
            return f"The fence: {why}."
    drawn = [] if route.rule in {"", NOWHERE, *_STEPS} else [f"rule {route.rule}"]
    drawn += [f"the task's own [{', '.join(own)}]"] if own else []
    return f"The fence: by {' and '.join(drawn)}." if drawn else ""
