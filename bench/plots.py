"""Pictures of a result. Needs matplotlib: `pip install 'tradewind[bench]'`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import Figure
from bench.report import QUICK

_OURS, _THEIRS, _TARGET = "#0b6e8a", "#9aa5ad", "#c0392b"
_PARTS = {
    "router_s": ("router", "#e0a030"),
    "worker_s": ("worker", "#0b6e8a"),
    "client_s": ("client", "#c9ced2"),
    "redis_s": ("Redis", "#b5483a"),
}
_DPI = 130


class NoMatplotlib(RuntimeError):
    """There are no pictures without it."""


def draw(result: Mapping[str, Any], stem: Path) -> list[Path]:
    """Draw what the result has numbers for, to STEM-*.png. Raises NoMatplotlib."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra
        from matplotlib import pyplot as plt  # noqa: PLC0415
    except ImportError:
        raise NoMatplotlib("no pictures: pip install 'tradewind[bench]'") from None
    mpl.use("Agg")
    drawn: list[Path] = []
    for name, picture in (
        ("targets", _targets),
        ("rates", _rates),
        ("cpu", _cpu),
        ("lifetime", _lifetime),
    ):
        figure = picture(plt, result)
        if figure is None:
            continue
        about = f"{result['machine']['cpu']}, {result['machine']['cores']} cores, Redis "
        about += f"{result['machine']['redis']}, Python {result['machine']['python']}, "
        about += f"commit {result['commit']}, {result['at'][:16]}Z"
        # A strip of a fixed height below the axes, whatever the height of the picture.
        strip = 0.25 / figure.get_figheight()
        figure.get_layout_engine().set(rect=(0, strip, 1, 1 - strip))
        figure.text(0.01, 0.3 * strip, about, fontsize=7, color="#666666")
        if result.get("quick"):
            figure.text(0.99, 0.3 * strip, QUICK, fontsize=7, color=_TARGET, ha="right")
        path = stem.with_name(f"{stem.name}-{name}.png")
        figure.savefig(path, dpi=_DPI)
        plt.close(figure)
        drawn.append(path)
    return drawn


def _targets(pyplot: Any, result: Mapping[str, Any]) -> Any:
    """Every figure that has a target, as a share of it: right of the line is good."""
    lines = [
        (f"{name}: {one['name']}", one)
        for name, row in result["rows"].items()
        for one in row["figures"]
        if one.get("target")
    ]
    if not lines:
        return None
    figure, axes = pyplot.subplots(figsize=(10, 1.6 + 0.34 * len(lines)), layout="constrained")
    for at, (_, one) in enumerate(reversed(lines)):
        low, middle, high = sorted(_share(one, one[key]) for key in ("low", "median", "high"))
        axes.plot([low, high], [at, at], color=_OURS, linewidth=2.5, solid_capstyle="round")
        axes.plot([middle], [at], "o", color=_OURS if middle >= 1 else _TARGET, markersize=6)
    axes.axvline(1.0, color=_TARGET, linewidth=1.2)
    axes.set_xscale("log")
    ticks = [0.1, 0.2, 0.5, 1, 2, 5, 10]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_yticks(range(len(lines)), [_label(*line) for line in reversed(lines)], fontsize=8)
    axes.set_xlabel(
        "measured against the target: 1 meets it, right of it is better; median and range"
    )
    axes.grid(axis="x", color="#dddddd")
    axes.set_title("Figures beside their targets")
    return figure


def _label(name: str, one: Mapping[str, Any]) -> str:
    unit = one["unit"] if one["unit"] != "x" else "x"
    return f"{name}   {one['sense']} {one['target']:g} {unit}"


def _share(one: Mapping[str, Any], value: float) -> float:
    if one["sense"] == ">=":
        return value / one["target"]
    return one["target"] / value if value > 0 else 10.0  # nothing at all is as good as it gets


def _rates(pyplot: Any, result: Mapping[str, Any]) -> Any:
    """Tasks a second of every contender, a panel for each row."""
    return _panels(pyplot, result, ("per_s",), "tasks a second", _rate_bars)


def _cpu(pyplot: Any, result: Mapping[str, Any]) -> Any:
    """CPU seconds per 1,000 tasks of every contender, by who spent them."""
    return _panels(pyplot, result, tuple(_PARTS), "CPU seconds per 1,000 tasks", _cpu_bars)


def _panels(
    pyplot: Any, result: Mapping[str, Any], keys: Sequence[str], unit: str, bars: Any
) -> Any:
    rows = {
        name: table
        for name, row in result["rows"].items()
        if (table := _table(row["samples"], keys))
    }
    if not rows:
        return None
    heights = [len(table) + 1.2 for table in rows.values()]
    figure, panels = pyplot.subplots(
        len(rows),
        figsize=(10, 0.9 + 0.34 * sum(heights)),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axes, (name, table) in zip(panels[:, 0], rows.items(), strict=True):
        bars(axes, table)
        axes.set_yticks(range(len(table)), list(table), fontsize=8)
        axes.invert_yaxis()
        axes.set_title(name, loc="left", fontsize=9, fontweight="bold")
        axes.grid(axis="x", color="#dddddd")
        axes.set_axisbelow(True)
        axes.tick_params(axis="x", labelsize=8)
    panels[-1, 0].set_xlabel(f"{unit}, medians")
    return figure


def _rate_bars(axes: Any, table: Mapping[str, Mapping[str, Figure]]) -> None:
    for at, (name, values) in enumerate(table.items()):
        one = values["per_s"]
        colour = _OURS if _is_ours(name) else _THEIRS
        axes.barh(at, one.median, color=colour, height=0.7)
        axes.plot([one.low, one.high], [at, at], color="#222222", linewidth=1)
        axes.text(one.high, at, f"  {one.median:,.0f}", va="center", fontsize=8)
    axes.set_xlim(0, max(values["per_s"].high for values in table.values()) * 1.14)
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _cpu_bars(axes: Any, table: Mapping[str, Mapping[str, Figure]]) -> None:
    for at, values in enumerate(table.values()):
        left = 0.0
        for key, (_, colour) in _PARTS.items():
            if key in values:
                axes.barh(at, values[key].median, left=left, color=colour, height=0.7)
                left += values[key].median
        axes.text(left, at, f"  {left:.3f}", va="center", fontsize=8)
    widest = max(sum(one.median for one in values.values()) for values in table.values())
    axes.set_xlim(0, widest * 1.14)
    used = {key for values in table.values() for key in values}
    for key, (name, colour) in _PARTS.items():
        if key in used:
            axes.barh(0, 0, color=colour, label=name)
    # Above the bars: inside the frame it would cover a figure.
    axes.legend(fontsize=7, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(used))


def _is_ours(name: str) -> bool:
    return name not in {"floor", "proto", "bullmq", "sidekiq", "dramatiq", "streaq"} and (
        not name.startswith(("echo", "unary"))
    )


def _table(
    samples: Sequence[Mapping[str, Any]], keys: Sequence[str]
) -> dict[str, dict[str, Figure]]:
    """Figures by contender and quantity, of those contenders that have any of them."""
    values: dict[str, dict[str, list[float]]] = {}
    for sample in samples:
        for key in keys:
            if key in sample["metrics"]:
                own = values.setdefault(sample["contender"], {})
                own.setdefault(key, []).append(sample["metrics"][key])
    return {
        name: {key: Figure.of(found) for key, found in own.items()} for name, own in values.items()
    }


def _lifetime(pyplot: Any, result: Mapping[str, Any]) -> Any:
    """A worker's resident memory over its tasks."""
    row = result["rows"].get("lifetime")
    if row is None or not any(sample["metrics"] for sample in row["samples"]):
        return None
    figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
    for sample in row["samples"]:
        points = sorted(
            (int(key.rpartition("_")[2]), value)
            for key, value in sample["metrics"].items()
            if key.startswith("rss_mb_at_")
        )
        axes.plot([n for n, _ in points], [mb for _, mb in points], "o-", color=_OURS)
    axes.axhline(70, color=_TARGET, linewidth=1.2)
    axes.text(0, 71, "target", color=_TARGET, fontsize=8)
    axes.set_ylim(0, max(80, axes.get_ylim()[1]))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("tasks that the worker process has run")
    axes.set_ylabel("resident memory, MB")
    axes.set_title("A worker's memory over its life")
    axes.grid(color="#dddddd")
    return figure
