"""A result as text: for a terminal, and as the Markdown table of docs/performance.md. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.figures import Figure, number

#: Quantities of a contender that are worth a column, with their headings.
COLUMNS = {
    "per_s": "tasks/s",
    "router_s": "router CPU",
    "worker_s": "worker CPU",
    "redis_s": "Redis CPU",
    "client_s": "client CPU",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "bytes": "bytes/task",
    "rss_mb": "RSS MB",
    "slope_mb": "MB a million",
    "router_percent": "router %",
    "worker_percent": "worker %",
    "redis_percent": "Redis %",
    "commands_per_s": "commands/s",
}


#: Said of a result of small numbers.
QUICK = "QUICK RUN: small numbers, once. It shows that every row runs; its figures mean nothing."
_CPU = ("router_s", "worker_s", "redis_s", "client_s")


def text(result: Mapping[str, Any]) -> str:
    """All of it, for people."""
    machine = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    parts = [QUICK] if result.get("quick") else []
    parts += [
        f"machine: {machine}",
        "sizes: " + ", ".join(f"{name} {value:,}" for name, value in result["sizes"].items()),
        "medians (lowest .. highest); CPU in seconds per 1,000 tasks",
    ]
    for name, row in result["rows"].items():
        parts += ["", f"{name}: {row['title']}", f"  request_id: {row['request_id']}"]
        if row.get("error"):
            parts.append(f"  could not be prepared: {row['error']}")
        parts += _indented(contenders(row["samples"]))
        parts += _indented(
            [["", "measured", "target", ""], *(_figure_cells(one) for one in row["figures"])]
        )
    return "\n".join(parts)


def costs(result: Mapping[str, Any]) -> str:
    """What a task costs each contender, medians in microseconds of CPU, and its rate."""
    used = [key for key in _CPU if any(key in s["metrics"] for s in _samples(result))]
    heads = [COLUMNS[key].removesuffix(" CPU") for key in used]
    lines = [
        f"| row | contender | tasks/s | {' | '.join(f'{head}, us' for head in heads)} |",
        "|---|---|" + "---|" * (1 + len(heads)),
    ]
    for row in result["rows"]:
        own = [s for s in result["rows"][row]["samples"] if "per_s" in s["metrics"]]
        for name in dict.fromkeys(sample["contender"] for sample in own):
            found = [sample["metrics"] for sample in own if sample["contender"] == name]
            rate = Figure.of([metrics["per_s"] for metrics in found]).median
            cells = [f"{rate:,.0f}"]
            for key in used:
                values = [metrics[key] for metrics in found if key in metrics]
                cells.append(f"{Figure.of(values).median * 1000:.0f}" if values else "")
            lines.append(f"| {row} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def markdown(result: Mapping[str, Any]) -> str:
    """Targets beside what was measured."""
    lines = ["| row | figure | target | measured | |", "|---|---|---|---|---|"]
    for name, row in result["rows"].items():
        for one in row["figures"]:
            what, measured, target, stands = _figure_cells(one)
            lines.append(f"| {name} | {what} | {target} | {measured} | {stands} |")
    return "\n".join(lines)


def _samples(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [sample for row in result["rows"].values() for sample in row["samples"]]


def contenders(samples: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A table: a line for each contender, a column for each quantity that any of them has."""
    names = list(dict.fromkeys(sample["contender"] for sample in samples))
    used = [key for key in COLUMNS if any(key in sample["metrics"] for sample in samples)]
    table = [["", *(COLUMNS[key] for key in used)]]
    for name in names:
        own = [sample for sample in samples if sample["contender"] == name]
        errors = [sample["error"] for sample in own if "error" in sample]
        line = [name]
        for key in used:
            values = [sample["metrics"][key] for sample in own if key in sample["metrics"]]
            line.append(str(Figure.of(values)) if values else "-")
        if errors:
            line[-1] += f"   failed {len(errors)} of {len(own)}: {errors[0][:100]}"
        table.append(line)
    return table


def failed(result: Mapping[str, Any]) -> list[str]:
    """Rows that could not be measured, with those contenders that failed."""
    found: list[str] = []
    for name, row in result["rows"].items():
        if row.get("error"):
            found.append(name)
        wrong = dict.fromkeys(s["contender"] for s in row["samples"] if "error" in s)
        found += [f"{name}: {contender}" for contender in wrong]
    return found


def _figure_cells(one: Mapping[str, Any]) -> list[str]:
    unit = f" {one['unit']}"
    measured = f"{number(one['median'])}{unit}"
    if len(one["values"]) > 1:
        measured += f" ({number(one['low'])} .. {number(one['high'])})"
    target = ""
    if one.get("target") is not None:
        target = f"{one['sense']} {number(one['target'])}{unit}"
        if one.get("stretch") is not None:
            target += f" ({number(one['stretch'])})"
    return [one["name"], measured, target, one.get("stands", "")]


def _indented(table: Sequence[Sequence[str]]) -> list[str]:
    if len(table) < 2:
        return []
    widths = [max(len(line[at]) for line in table) for at in range(len(table[0]))]
    return [
        "    "
        + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]
