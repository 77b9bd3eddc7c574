"""tradewind policy diff: what a new regions.yaml would change."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tradewind.cli.outcome import DONE, FAILED, Unusable
from tradewind.cli.session import examples, json_option
from tradewind.cli.text import clean

if TYPE_CHECKING:
    from rich.console import Console

    from tradewind.cli.policy_report import Report
    from tradewind.fleet import Fleet
    from tradewind.v1.task_pb2 import TaskSpec

_EXITS = """\b
Exit codes:
  0  nothing changes, or tasks only move
  1  somebody should look: a task is refused that was not, a fence lets more regions in, the set
     of regions changes by more than a step, a region has another Redis, repeats are forgotten
  2  a file is invalid, or NEW changes what never may (partitions, deployment)

"""


@click.command(
    short_help="Show what NEW would change against OLD.",
    epilog=_EXITS
    + examples(
        "tradewind policy diff regions.yaml new.yaml",
        "tradewind policy diff regions.yaml new.yaml --tasks tasks.jsonl --origin eu-west",
        "tradewind policy diff <(git show main:regions.yaml) regions.yaml",
    ),
)
@click.argument("old", type=click.Path(path_type=Path), metavar="OLD")
@click.argument("new", type=click.Path(path_type=Path), metavar="NEW")
@click.option(
    "--tasks",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    metavar="FILE.jsonl",
    help="Route these by both files; a task a line, as for `submit --from`.",
)
@click.option(
    "--origin",
    "origins",
    metavar="REGION",
    multiple=True,
    help="Where tasks without an origin_region come from [default: each region in turn].",
)
@json_option
def diff(
    old: Path, new: Path, tasks: Path | None, origins: tuple[str, ...], *, as_json: bool
) -> int:
    """Show what the regions.yaml NEW would change against OLD.

    Fences that let in or shut out regions, changes of the set of regions that forget repeats, and
    with --tasks which tasks would go elsewhere, be refused, or run twice: each is routed by both
    files, with all regions healthy and idle. Nothing is connected to. Files may be pipes.
    """
    from tradewind import regions  # noqa: PLC0415 - YAML and pydantic are slow to import
    from tradewind.cli import show  # noqa: PLC0415 - so is rich
    from tradewind.cli.policy_report import compared  # noqa: PLC0415 - so is gRPC
    from tradewind.cli.policy_routes import pairs  # noqa: PLC0415
    from tradewind.cli.progress import watched  # noqa: PLC0415

    before, after = (regions.load(path, without_secrets=True, may_wait=True) for path in (old, new))
    _refuse_what_never_changes(before, after, new)
    specs = [] if tasks is None else _specs(tasks)
    given = _origins(origins, before, after)
    total = sum(1 if spec.origin_region else len(given) for spec in specs)
    routed = pairs(specs, before, after, given)
    report = compared(before, after, watched(routed, "routed", total=total))
    if as_json:
        show.emit(
            {
                "old": {"file": str(old), "version": before.version},
                "new": {"file": str(new), "version": after.version},
                "tasks": len(specs),
                **asdict(report),
            }
        )
    else:
        _print(report, len(specs), f"{old} {before.version} -> {new} {after.version}")
    return FAILED if report.alarms else DONE


def _refuse_what_never_changes(old: "Fleet", new: "Fleet", path: Path) -> None:
    from tradewind.policy_file import forbidden  # noqa: PLC0415 - metrics are slow to import

    kept = next((name for name in old.regions if name in new.regions), "")
    if not kept:
        raise Unusable(f"{path}: has no region in common with the old file: it is another fleet's")
    if why := forbidden(old, new, kept):
        raise Unusable(f"{path}: {why}")


def _specs(tasks: Path) -> "list[TaskSpec]":
    from tradewind.cli.progress import watched  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.submit import read_tasks  # noqa: PLC0415 - so is gRPC
    from tradewind.client.specs import build_spec  # noqa: PLC0415

    requests = watched(read_tasks(tasks, None, {}, "nothing was compared"), "read")
    return [build_spec(request.name, request.args, request.options) for request in requests]


def _origins(given: tuple[str, ...], old: "Fleet", new: "Fleet") -> Sequence[str]:
    both = [name for name in old.regions if name in new.regions]
    for name in given:
        if name not in both:
            known = ", ".join(both)
            raise Unusable(f"--origin {name}: both files must have it; they share {known}")
    return given or both


def _print(report: "Report", tasks: int, title: str) -> None:
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.policy_report import routes  # noqa: PLC0415
    from tradewind.cli.sheet import Column, Sheet  # noqa: PLC0415

    out = show.console()
    out.print(show.text(title, "bold"))
    if tasks:
        counts = {
            "stay": report.stay,
            "move": sum(move.routes for move in report.moved),
            "refused now": sum(move.routes for move in report.refused_now),
            "no longer refused": sum(move.routes for move in report.accepted_now),
        }
        said = ", ".join(f"{count} {what}" for what, count in counts.items())
        plural = "" if tasks == 1 else "s"
        out.print(f"{tasks} task{plural}, {routes(report.routes)}: {said}")
    ways = (*report.refused_now, *report.moved, *report.accepted_now)
    if ways:
        made = Sheet(
            Column("from"),
            Column("to"),
            Column("routes", right=True),
            Column("such as", folds=True),
        )
        for way in ways:
            target = show.text(way.target, "red" if way.why else "")
            below = (f"{way.why}",) if way.why else ()
            made.add(way.origin, target, f"{way.routes}", way.example, below=below)
        out.print()
        out.print(made)
    _section(out, "Settings", [(each, False) for each in report.settings])
    fences = [(change.sentence, bool(change.widened)) for change in report.fences]
    _section(out, "Fences", [*fences, *((each, True) for each in report.opened)])
    _section(out, "Regions", [(each, True) for each in (*report.steps, *report.addresses)])
    _section(out, "Repeats", [(report.forgotten, True)] if report.forgotten else [])
    out.print()
    if report.alarms:
        out.print(show.text(f"Have a look: {', '.join(report.alarms)}.", "bold red"))
    elif tasks:
        out.print(show.text("No alarm: nothing is refused, opened or forgotten.", "green"))
    else:
        out.print(show.text("No alarm: nothing is opened or forgotten.", "green"))
        out.print("Where tasks would go was not compared: say which with --tasks.")


def _section(out: "Console", title: str, lines: Sequence[tuple[str, bool]]) -> None:
    from rich.text import Text  # noqa: PLC0415 - rich is slow to import

    if not lines:
        return
    out.print()
    out.print(Text(title, "bold"))
    for line, alarming in lines:
        out.print(Text.assemble(("! ", "bold red") if alarming else "  ", clean(line)))
