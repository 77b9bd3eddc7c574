"""Pictures: time to start by policy, shares over time around an outage, fences."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.sim.run import Result
from bench.sim.scenarios import Scenario
from bench.sim.tally import BUCKET_S

_OURS = "#0b6e8a"
_COLOURS = ("#0b6e8a", "#e0a030", "#b5483a", "#6a7f3c", "#7a5aa6", "#5b8fd6", "#9aa5ad", "#444444")
_RIVALS = (*_COLOURS[1:], "#111111", "#c2569b")
_DPI = 130


class NoMatplotlib(RuntimeError):
    """There are no pictures without it."""


def draw(
    scenarios: Mapping[str, Scenario], results: Mapping[str, Sequence[Result]], stem: Path
) -> list[Path]:
    """Draw what there are results for, to STEM-*.png. Raises NoMatplotlib."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - only pictures need it
        from matplotlib import pyplot as plt  # noqa: PLC0415
    except ImportError:
        raise NoMatplotlib("no pictures: pip install 'tradewind[bench]'") from None
    mpl.use("Agg")
    drawn: list[Path] = []

    def keep(figure: Any, name: str) -> None:
        path = stem.with_name(f"{stem.name}-{name}.png")
        figure.savefig(path, dpi=_DPI)
        plt.close(figure)
        drawn.append(path)

    loads = [name for name in results if scenarios[name].script is None]
    if loads:
        keep(_delays(plt, [(name, results[name]) for name in loads]), "time-to-start")
    for name, runs in results.items():
        if scenarios[name].script is not None:
            keep(_shares(plt, scenarios[name], runs), name)
    broken = [name for name in results if name not in loads]
    if broken:
        keep(_fences(plt, {name: results[name] for name in broken}), "fences")
    return drawn


def _delays(plt: Any, panels: Sequence[tuple[str, Sequence[Result]]]) -> Any:
    """Draw who still waits after how long, both in logs: the tail counts. The first seed's."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(6.2 * columns, 4.2 * rows), squeeze=False, layout="constrained"
    )
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    for (name, results), axis in zip(panels, axes.flat, strict=False):
        seed = results[0].seed
        firsts = [each for each in results if each.seed == seed]
        for index, result in enumerate(firsts):
            is_ours = result.policy == "product"
            axis.plot(
                [max(value, 1e-3) for value in result.delays_s[1:100]],
                range(99, 0, -1),
                label=f"{result.policy}, {result.home:.0%} at home",
                color=_OURS if is_ours else _RIVALS[(index - 1) % len(_RIVALS)],
                linewidth=2.6 if is_ours else 1.3,
                linestyle="--" if "oracle" in result.policy else "-",
                zorder=3 if is_ours else 2,
            )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_ylim(1, 100)
        axis.set_yticks((1, 2, 5, 10, 20, 50, 100), ("1", "2", "5", "10", "20", "50", "100"))
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("time to start, s")
        axis.set_ylabel("% of tasks that wait longer")
        axis.legend(fontsize=7, loc="lower left")
        axis.grid(visible=True, alpha=0.25)
    return figure


def _shares(plt: Any, scenario: Scenario, results: Sequence[Result]) -> Any:
    """Draw where tasks arrived, the product above, then each rival; the outage is shaded."""
    assert scenario.script is not None  # noqa: S101 - the caller has looked
    seed = results[0].seed
    firsts = [each for each in results if each.seed == seed]
    figure, axes = plt.subplots(
        len(firsts), 1, figsize=(9, 2.4 * len(firsts) + 0.6), squeeze=False, layout="constrained"
    )
    for result, axis in zip(firsts, axes.flat, strict=True):
        totals = [sum(bucket) for bucket in zip(*result.arrived.values(), strict=True)]
        times_s = [index * BUCKET_S for index in range(len(totals))]
        stacks = [
            [
                100 * count / total if total else 0.0
                for count, total in zip(each, totals, strict=True)
            ]
            for each in result.arrived.values()
        ]
        axis.stackplot(times_s, stacks, labels=list(result.arrived), colors=_COLOURS, alpha=0.85)
        for at_s in (scenario.script.begins_s, scenario.script.ends_s):
            axis.axvline(at_s, color="black", linewidth=1.2, linestyle=":")
        axis.set_ylim(0, 100)
        axis.set_xlim(20, scenario.length_s - BUCKET_S)
        axis.set_ylabel("% of arrivals")
        axis.set_title(
            f"{result.policy}: p99 {result.p99_s:.2f} s, success {result.success:.2%}, "
            f"{result.outside_fence} outside their fence",
            fontsize=9,
        )
    axes.flat[-1].set_xlabel("simulated seconds")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8)
    figure.suptitle(f"{scenario.name} (after {scenario.script.like})", fontsize=11)
    return figure


def _fences(plt: Any, results: Mapping[str, Sequence[Result]]) -> Any:
    """Draw tasks outside their fence by policy, all scripts and seeds added up."""
    counts: dict[str, int] = {}
    for runs in results.values():
        for result in runs:
            counts[result.policy] = counts.get(result.policy, 0) + result.outside_fence
    figure, axis = plt.subplots(figsize=(7, 0.6 * len(counts) + 1.2), layout="constrained")
    bars = axis.barh(list(counts), list(counts.values()), color=_COLOURS[0])
    axis.bar_label(bars, fmt="{:,.0f}", padding=4)
    axis.invert_yaxis()
    axis.margins(x=0.15)
    axis.set_xlabel(f"tasks outside their fence, {len(results)} outage scripts")
    return figure
