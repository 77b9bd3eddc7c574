"""tradewind explain: where a task would go, and why not elsewhere."""

from typing import TYPE_CHECKING, Any

import click

from tradewind.cli.held import held_text, remedy_text
from tradewind.cli.options import payload_of, task_options, to_options
from tradewind.cli.outcome import DONE, FAILED
from tradewind.cli.session import examples, json_option, router_option, with_client
from tradewind.cli.unserved import UNSERVED, is_unserved
from tradewind.policy.choose import DETOUR, FAILOVER, HOME, NOWHERE, TRIAL
from tradewind.policy.filters import NOBODY_RUNS_IT
from tradewind.policy.rules import listed

if TYPE_CHECKING:
    from rich.text import Text

    from tradewind.client import Route

# Steps that decide where no rule of the policy file matches; other names are those of rules.
_STEPS = {
    "pin": "the region it asks for",
    "affinity": "the region of its key",
    "prefer": "the first that its rule prefers",
    "ledger": "as good as the best, and it recognises repeats",
    HOME: "the nearest",
    DETOUR: "the nearest that can take it",
    "spill": "it would start sooner than in the nearest",
    FAILOVER: "the others are out, and failover.order names it",
    TRIAL: "whether it is well again is tried with one task at a time",
    "panic": "each that is permitted is in doubt or over a limit; this one may take it",
    UNSERVED: "no live worker runs it",
}
# What a submit is refused with, and whether to wait.
_PERMANENT = "FAILED_PRECONDITION"
_REFUSALS = {
    _PERMANENT: "Waiting does not help: this is a contradiction",
    "UNAVAILABLE": "This may pass: regions that may take it are out",
    "RESOURCE_EXHAUSTED": "This may pass: regions that may take it are full",
}
_REPEATS = {
    "key": "Repeats of its idempotency key",
    "payload": "Repeats of its payload",
    "request_id": "Repeats of its request_id",
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

    Stores nothing. Exits 1 if no region would take it, and says whether to wait, or what to change.
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
    queue = options.get("queue", "default")
    if is_unserved(route):
        out.print(show.text(f"It would wait there until a worker of queue {queue} runs it."))
    if held := held_line(name, queue, route):
        out.print(show.text(held, "yellow"))
    out.print()
    out.print(route_sheet(route))
    out.print()
    said = (
        refusal_text(route),
        regime_text(route),
        fence_text(route),
        repeats_text(route, is_named="request_id" in options),
    )
    for line in filter(None, said):
        out.print(show.text(line))
    out.print(show.text(f"policy {route.policy_version}, partition {route.partition}", "dim"))
    return DONE if route.region else FAILED


def headline(name: str, route: "Route") -> "Text":
    """Give the answer in a line."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    said = show.text(name, "bold")
    if route.region:
        said.append(" goes to ").append_text(show.text(route.region, "bold green"))
        return said.append_text(show.text(f": {_decided(route)}"))
    said.append(" goes ").append("nowhere", "bold red")
    said.append(f": no region {'may ever' if route.refused == _PERMANENT else 'can'} take it")
    if route.refused != _PERMANENT:
        said.append(" now")
    why = "" if route.rule in {"", NOWHERE} else f" ({route.rule})"
    return said.append_text(show.text(why))


def held_line(name: str, queue: str, route: "Route") -> str:
    """Say what would hold it back there by an operator's word; empty if nothing would."""
    why, region = route.waits_for, route.region
    if not why or why in NOBODY_RUNS_IT:
        return ""
    said = held_text(why, queue=queue, region=region, name=name)
    pinned = bool(route.fence_by.pin_region)
    remedy = remedy_text(why, queue=queue, region=region, pinned=pinned)
    return f"It would wait there: {said}; {remedy}."


def _decided(route: "Route") -> str:
    """Name what decided; behind a rule, the step that took the region of those it leaves open."""
    step = route.step or route.rule
    said = _STEPS.get(step, "")
    if step == "spill" and _returning(route) is not None:
        said = "the nearest recovers, and takes only a part of its tasks"
    if step == DETOUR and route.bypassed:
        why = {each.region: each.excluded_by for each in route.candidates}.get(route.bypassed)
        said = f"{said}; {route.bypassed} is nearer: {why or 'out'}"
    if step in {HOME, DETOUR} and (route.spills or _returning(route) is not None):
        said = f"{said}, drawn by its share"
    rule = route.matched or ("" if route.rule == step else route.rule)
    if not rule:
        return f"{step} ({said})" if said else step
    return f"{rule}, then {step} ({said})" if said else rule


def refusal_text(route: "Route") -> str:
    """Say whether waiting helps a task that no region takes, and what to do."""
    if route.region or not route.refused:
        return ""
    lasts, why = _REFUSALS.get(route.refused, "A submit is refused"), route.refusal
    return f"{lasts} ({route.refused}). {why[:1].upper()}{why[1:]}."


def regime_text(route: "Route") -> str:
    """Say whether such tasks stay at home now; nothing where distance had no part in it."""
    if not route.home:
        return ""
    home = f"Home is {route.home}"
    if route.bypassed:
        home = f"{home} while {route.bypassed} takes none"
    if route.spills:
        return f"{home}; tasks leave it now, each for a region drawn by its share."
    if (share := _returning(route)) is not None:
        return f"{home}, and recovers: by now it takes {share:.0%} of such tasks, and soon all."
    return f"{home}; tasks {'go' if route.bypassed else 'stay'} there."


def _returning(route: "Route") -> float | None:
    """Give the share of its tasks that home takes while it recovers; None if it takes them all."""
    shares = [each.share for each in route.candidates if each.region == route.home]
    return shares[0] if shares and shares[0] < 1 and not route.spills else None


def fence_text(route: "Route") -> str:
    """Give the fence, and who drew it."""
    by = route.fence_by
    drawn = [f"rule {by.rule}"] if by.rule else []
    drawn += ["the task's own residency"] if by.task_residency else []
    if len(drawn) > 1:  # which one it narrows to is in the fence, if they leave anything
        groups = (listed(by.rule_residency), listed(by.task_residency))
        drawn = [f"{who} {each}" for who, each in zip(drawn, groups, strict=True)]
    pinned = f"Pinned to {by.pin_region}." if by.pin_region else ""
    if not drawn:
        return pinned
    fence = f" {listed(route.fence)}" if route.fence else ""  # they may exclude each other
    return f"The fence{fence}: by {' and '.join(drawn)}. {pinned}".rstrip()


def repeats_text(route: "Route", *, is_named: bool) -> str:
    """Say where repeats are recognised; `is_named`: the request_id is the caller's own.

    One that was minted for this question says nothing of a submit.
    """
    if not route.ledger_home or (route.dedup_by == "request_id" and not is_named):
        return ""
    what = _REPEATS.get(route.dedup_by, "Repeats")  # a router before this one does not say
    return f"{what} are recognised in {route.ledger_home}."
