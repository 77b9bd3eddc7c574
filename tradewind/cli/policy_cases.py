"""tradewind policy test: table tests of routing decisions."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tradewind.cli.outcome import DONE, FAILED
from tradewind.cli.session import examples, json_option
from tradewind.cli.text import clean

if TYPE_CHECKING:
    from rich.console import Console

    from tradewind.cli.policy_verdict import Verdict
    from tradewind.cli.sheet import Sheet

_INSET = "    "
_EXITS = """\b
Exit codes:
  0  all cases hold
  1  one does not
  2  a file is invalid

"""


@click.command(
    short_help="Hold the decisions of FILE against the cases of CASES.",
    epilog=_EXITS + examples("tradewind policy test regions.yaml policy-cases.yaml"),
)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.argument("cases", type=click.Path(path_type=Path), metavar="CASES")
@json_option
def test(file: Path, cases: Path, *, as_json: bool) -> int:
    """Hold the decisions of the regions.yaml FILE against the cases of CASES.

    A case gives the state of regions and a task, and says where that must go: a region, any of
    some, a rule, a share of such tasks, what excludes a region, or the code of a refusal. Nothing
    runs and nothing is connected to: the router's own decision is taken for each.
    """
    from tradewind import regions  # noqa: PLC0415 - YAML and pydantic are slow to import
    from tradewind.cli import show  # noqa: PLC0415 - so is rich
    from tradewind.cli.policy_verdict import judged  # noqa: PLC0415 - so is gRPC
    from tradewind.regions.cases import load  # noqa: PLC0415

    fleet = regions.load(file, without_secrets=True, may_wait=True)
    verdicts = [judged(case, fleet) for case in load(cases, fleet)]
    failed = sum(bool(verdict.differences) for verdict in verdicts)
    if as_json:
        show.emit(
            {
                "file": str(file),
                "cases": str(cases),
                "version": fleet.version,
                "passed": len(verdicts) - failed,
                "failed": failed,
                "results": [_object(verdict) for verdict in verdicts],
            }
        )
    else:
        _print(verdicts, failed, cases)
    return FAILED if failed else DONE


def _object(verdict: "Verdict") -> dict[str, Any]:
    case = verdict.case
    return {
        "name": case.name,
        "line": case.line,
        "passed": not verdict.differences,
        "differences": verdict.differences,
        "shares": {region: round(share, 6) for region, share in verdict.shares.items()},
        "rule": verdict.route.rule,
        "refused": verdict.refused or None,
        "message": verdict.message or None,
        "candidates": verdict.route.candidates,
    }


def _print(verdicts: "Sequence[Verdict]", failed: int, cases: Path) -> None:
    from rich.text import Text  # noqa: PLC0415 - rich is slow to import

    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    out = show.console()
    for verdict in verdicts:
        if verdict.differences:
            _print_failure(out, verdict, cases)
        else:
            out.print(Text.assemble(("✓ ", "green"), clean(verdict.case.name)))
    count = f"{len(verdicts)} case{'s' * (len(verdicts) != 1)}"
    if failed:
        out.print(show.text(f"{failed} of {count} failed", "bold red"))
    else:
        out.print(show.text(f"{count} passed", "bold green"))


def _print_failure(out: "Console", verdict: "Verdict", cases: Path) -> None:
    from rich.text import Text  # noqa: PLC0415 - rich is slow to import

    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.route_sheet import route_sheet  # noqa: PLC0415
    from tradewind.cli.sheet import Column, Sheet  # noqa: PLC0415

    case = verdict.case
    place = clean(f"  {cases}:{case.line}")
    out.print(Text.assemble(("✗ ", "bold red"), (clean(case.name), "bold"), (place, "dim")))
    differences = Sheet(Column("expect"), Column("wanted", folds=True), Column("got", folds=True))
    for each in verdict.differences:
        differences.add(each.of, show.text(each.wanted, "green"), show.text(each.got, "red"))
    _print_inset(out, differences)
    if verdict.message:
        out.print(show.text(f"{_INSET}{verdict.message}"))
        out.print()
    _print_inset(out, route_sheet(verdict.route))


def _print_inset(out: "Console", sheet: "Sheet") -> None:
    from rich.text import Text  # noqa: PLC0415 - rich is slow to import

    room = out.options.update_width(max(1, out.width - len(_INSET)))
    for line in out.render_lines(sheet, room, pad=False):
        out.print(Text.assemble(_INSET, *((part.text, part.style or "") for part in line)))
    out.print()
