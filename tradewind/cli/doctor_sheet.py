"""How findings look to a person: the worst first, each with what it means and what mends it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from shlex import quote

from rich.console import Console
from rich.text import Text

from tradewind.cli import show
from tradewind.cli.sheet import Column, Sheet
from tradewind.doctor import Finding, RegionFacts, Severity

Report = Sequence[tuple[RegionFacts, Sequence[Finding]]]

_STYLES = {
    Severity.OK: "green",
    Severity.INFO: "cyan",
    Severity.WARNING: "yellow",
    Severity.ERROR: "bold red",
}
_COMMAND = "bold"
_QUIET = "dim"


def print_report(out: Console, report: Report) -> None:
    """Print a table for each region, and last what it comes to."""
    for region, findings in report:
        out.print(_headline(region, findings))
        out.print(findings_sheet(region, findings))
        out.print()
    out.print(_summary(report))
    if any(command.startswith("CONFIG SET") for command in _commands(report)):
        out.print(
            show.text(
                "CONFIG SET lasts until a restart: write it into redis.conf, too "
                "(CONFIG REWRITE does so).",
                _QUIET,
            )
        )


def findings_sheet(region: RegionFacts, findings: Sequence[Finding]) -> Sheet:
    """Give a row for each finding, and under it what it means and what mends it."""
    everywhere = {node.address for node in region.nodes}
    places = [
        "" if set(finding.nodes) == everywhere else ", ".join(finding.nodes) for finding in findings
    ]
    columns = (Column(""), Column("check"), Column("found", folds=True))
    has_places = any(places)  # a single server needs no naming at each row
    made = Sheet(*columns, *([Column("at", folds=True)] if has_places else []))
    for finding, place in zip(findings, places, strict=True):
        is_well = finding.severity is Severity.OK
        below: list[Text | str] = []
        if not is_well:
            below = [show.text(each) for each in (finding.means, finding.advice) if each]
            below += [show.text(each, _COMMAND) for each in commands(finding)]
        made.add(
            Text(finding.severity.name.lower(), _STYLES[finding.severity]),
            show.text(finding.check),
            show.text(finding.found, _QUIET if is_well else ""),
            *([show.text(place)] if has_places else []),
            below=below,
        )
    return made


def commands(finding: Finding) -> Iterator[str]:
    """What to type to mend it: each command at each of its nodes."""
    for node in finding.nodes:
        host, colon, port = node.rpartition(":")
        where = f"-h {quote(host.strip('[]'))} -p {port}" if colon else f"-s {quote(node)}"
        for command in finding.mend:
            yield f"redis-cli {where} {command}"


def _headline(region: RegionFacts, findings: Sequence[Finding]) -> Text:
    line = Text(region.name, "bold").append(f"  {region.kind}", _QUIET)
    if not region.is_reachable:
        return line.append("  does not answer", _STYLES[Severity.ERROR])
    for severity, number in _numbers(findings):
        line.append(f"  {_counted(severity, number)}", _STYLES[severity])
    return line


def _summary(report: Report) -> Text:
    every = [finding for _, findings in report for finding in findings]
    regions = f"{len(report)} region{'' if len(report) == 1 else 's'}"
    bad = [(s, n) for s, n in _numbers(every) if s >= Severity.WARNING]
    if not bad:
        return Text(f"{regions}: nothing to mend.", _STYLES[Severity.OK])
    line = Text(f"{regions}:")
    for index, (severity, number) in enumerate(bad):
        said = _counted(severity, number)
        line.append(f"{',' if index else ''} ").append(said, _STYLES[severity])
    return line.append(".")


def _counted(severity: Severity, number: int) -> str:
    plural = "s" if number != 1 and severity >= Severity.WARNING else ""
    return f"{number} {severity.name.lower()}{plural}"


def _numbers(findings: Sequence[Finding]) -> list[tuple[Severity, int]]:
    """How many of each severity, the worst first."""
    number = Counter(finding.severity for finding in findings)
    return [(each, number[each]) for each in sorted(number, reverse=True)]


def _commands(report: Report) -> Iterator[str]:
    return (command for _, findings in report for each in findings for command in each.mend)
