"""Tables, as Markdown: what each policy did, and the verdicts."""

import math
from collections.abc import Sequence
from statistics import median

from bench.sim.judge import Line
from bench.sim.run import Result


def policies(results: Sequence[Result]) -> str:
    """Return a table of one scenario's policies: medians over the seeds."""
    head = (
        "policy",
        "p50 s",
        "p95 s",
        "p99 s",
        "worst p99",
        "at home",
        "fence",
        "success",
        "changes",
        "guests",
    )
    rows: list[tuple[str, ...]] = [head]
    for name in dict.fromkeys(result.policy for result in results):
        runs = [result for result in results if result.policy == name]
        rows.append(
            (
                name,
                f"{median(r.p50_s for r in runs):.3f}",
                f"{median(r.p95_s for r in runs):.3f}",
                f"{median(r.p99_s for r in runs):.3f}",
                f"{max(r.p99_s for r in runs):.3f}",
                f"{median(r.home for r in runs):.1%}",
                f"{sum(r.outside_fence for r in runs)}",
                f"{median(r.success for r in runs):.3%}",
                f"{max(_changes(r) for r in runs)}",
                f"{max(r.guests for r in runs):.0%}",
            )
        )
    return table(rows)


def _changes(result: Result) -> int:
    """Return how often a router changed its mind on whether a region is eligible, at most."""
    times = (len(each) for routers in result.changes.values() for each in routers.values())
    return max(times, default=0)


def verdicts(lines: Sequence[Line]) -> str:
    """Return a table of targets, figures and verdicts."""
    rows = [("scenario", "target", "must be", "median", "worst seed", "verdict")]
    rows += [
        (
            line.scenario,
            line.target,
            line.bound,
            f"{_short(line.middle)}{line.unit}",
            f"{_short(line.worst)}{line.unit}",
            line.verdict,
        )
        for line in lines
    ]
    return table(rows)


def _short(figure: float) -> str:
    """Return three digits, or all before the point."""
    return f"{figure:.0f}" if 1_000 <= figure < math.inf else f"{figure:.3g}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a Markdown table whose columns line up; the first row is the head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def speed(results: Sequence[Result]) -> str:
    """Say how much was simulated, and how fast."""
    tasks, events = sum(r.simulated for r in results), sum(r.events for r in results)
    cpu_s = sum(r.cpu_s for r in results)
    ours = [r for r in results if r.policy == "product"]
    ours_s = sum(r.cpu_s for r in ours)
    return (
        f"{len(results)} runs, {tasks:,} tasks, {events:,} events in {cpu_s:.0f} s of CPU: "
        f"{events / max(cpu_s, 1e-9):,.0f} events/s; with the product's decisions "
        f"{sum(r.simulated for r in ours) / max(ours_s, 1e-9):,.0f} tasks/s"
    )
