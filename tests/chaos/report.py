"""A run as figures, a line of a table, and a picture of its time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.box import SIMPLE
from rich.table import Table

from tests.chaos.check import Verdict, Violation
from tests.chaos.history import History

_COLOURS: Final = ("#0b6e8a", "#e0a030", "#6a7f3c", "#7a5aa6")
_FAULT: Final = "#b5483a"
_DPI: Final = 120
_RATES_INCHES: Final = 3.6
_ROW_INCHES: Final = 0.16
_FEW_ROWS: Final = 6
_BUCKET_S: Final = 2.0
_STORY_LINES: Final = 60


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run came to. `failed_calls` is the share of submits that got no task."""

    seed: int
    length_s: float
    code: str  # digest of what was tried
    accepted: int
    failed_calls: float
    completed: int
    moved: int
    struck: int
    repeated: int
    forgotten: int
    unconfirmed: int
    settled_s: float  # from the last fault's end until the last task came to rest
    violations: int

    @staticmethod
    def of(seed: int, length_s: float, code: str, history: History, verdict: Verdict) -> "Figures":
        """Count."""
        submits = [told for told in history.told if told.call != "cancel"]
        refused = [told for told in submits if not told.task_id]
        states = Counter(ends[0].state for ends in history.ends.values() if ends)
        born = {told.task_id: told.region for told in history.accepted() if told.call == "submit"}
        moved = sum(
            1
            for task_id, ends in history.ends.items()
            if ends and ends[0].region and ends[0].region != born.get(task_id, ends[0].region)
        )
        last = max((line.at for line in history.lines), default=history.healed_at)
        return Figures(
            seed=seed,
            length_s=length_s,
            code=code,
            accepted=len({told.task_id for told in history.accepted()}),
            failed_calls=len(refused) / max(1, len(submits)),
            completed=states["COMPLETED"],
            moved=moved,
            struck=len(history.struck),
            repeated=verdict.repeated,
            forgotten=verdict.forgotten,
            unconfirmed=sum(told.is_unconfirmed for told in submits),
            settled_s=max(0.0, last - history.healed_at),
            violations=len(verdict.violations),
        )


def summary(runs: Sequence[Figures]) -> Table:
    """A line for each seed."""
    heads = (
        *("seed", "tasks", "refused", "completed", "moved", "faults", "repeated", "forgotten"),
        *("unconfirmed", "rest after", "violations"),
    )
    table = Table(*heads, box=SIMPLE)
    for run in runs:
        table.add_row(
            *(f"{run.seed}", f"{run.accepted}", f"{run.failed_calls:.1%}", f"{run.completed}"),
            *(f"{run.moved}", f"{run.struck}", f"{run.repeated}", f"{run.forgotten}"),
            *(f"{run.unconfirmed}", f"{run.settled_s:.0f} s", f"{run.violations or 'none'}"),
        )
    return table


def shortest(history: History, violations: Sequence[Violation]) -> list[str]:
    """Each kind of violation by its shortest history."""
    told: list[str] = []
    by_kind: dict[str, list[tuple[Violation, list[str]]]] = {}
    for one in violations:
        kind = f"invariant {one.invariant}: {one.wrong.split(' ', 3)[:3]}"
        by_kind.setdefault(kind, []).append((one, history.story(one.number, one.task_ids)))
    for found in by_kind.values():
        violation, story = min(found, key=lambda pair: len(pair[1]))
        whose = f"operation {violation.number}" if violation.number >= 0 else "the whole"
        ids = ", ".join(sorted(violation.task_ids))
        told.append(f"invariant {violation.invariant}, {whose} {ids}: {violation.wrong}")
        told.append(f"  ({len(found)} of this kind; the shortest history:)")
        told += [f"  {line}" for line in story[:_STORY_LINES]]
    return told


def draw(history: History, seed: int, path: Path) -> bool:
    """Draw starts and answers over time above the faults. False without matplotlib."""
    try:
        import matplotlib as mpl  # an extra
        from matplotlib import pyplot as plt
    except ImportError:
        return False
    mpl.use("Agg")
    zero = min((told.asked_at for told in history.told), default=0.0)
    end = max([history.healed_at, *(line.at for line in history.lines)]) - zero
    names = sorted({f"{one.strike.region}: {one.strike.fault}" for one in history.struck})
    heights = (_RATES_INCHES, _ROW_INCHES * max(len(names), _FEW_ROWS))
    figure: Any
    figure, (above, below) = plt.subplots(
        *(2, 1),
        figsize=(13, sum(heights) + 1),
        sharex=True,
        height_ratios=heights,
        layout="constrained",
    )
    _rates(above, history, zero, end)
    _faults(below, history, zero, names)
    above.set_title(f"seed {seed}: {len(history.struck)} faults, {len(history.ends)} tasks")
    below.set_xlabel("seconds since the load began")
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)
    return True


def _rates(axes: Any, history: History, zero: float, end: float) -> None:
    edges = [at * _BUCKET_S for at in range(int(end / _BUCKET_S) + 2)]
    starts: dict[str, list[float]] = {}
    for line in history.lines:
        if line.event == "start":
            starts.setdefault(line.region, []).append(line.at - zero)
    for colour, (region, moments) in zip(_COLOURS, sorted(starts.items()), strict=False):
        axes.plot(edges[:-1], _counts(moments, edges), color=colour, label=f"starts, {region}")
    refused = [t.told_at - zero for t in history.told if not t.task_id]
    axes.plot(edges[:-1], _counts(refused, edges), color=_FAULT, label="calls without a task")
    axes.axvline(history.healed_at - zero, color="#888888", linestyle=":", label="all is well")
    axes.set_ylabel("per second")
    axes.legend(loc="upper right", fontsize=8)


def _counts(moments: Sequence[float], edges: Sequence[float]) -> list[float]:
    counts: Mapping[int, int] = Counter(int(at / _BUCKET_S) for at in moments)
    return [counts.get(at, 0) / _BUCKET_S for at in range(len(edges) - 1)]


def _faults(axes: Any, history: History, zero: float, names: Sequence[str]) -> None:
    for one in history.struck:
        row = names.index(f"{one.strike.region}: {one.strike.fault}")
        length = max(0.6, one.ended_at - one.began_at)
        axes.broken_barh([(one.began_at - zero, length)], (row - 0.35, 0.7), color=_FAULT)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(-1, len(names))
    axes.grid(axis="x", alpha=0.3)
