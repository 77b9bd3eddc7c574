"""Simulate, compare, judge.

    python -m bench.sim [--scenario NAME,...] [--seeds N] [--policies NAME,...] [--jobs N]
                        [--length-s S] [--service-s S] [--report-s S] [--what-if NAME,...]
                        [--out FILE]

Scenarios: `loads` (75 % and 90 %, reports each 1 s and 5 s), `outages` (every script), a script's
name, `big` (30 regions of 10 routers). With --out FILE.json also FILE.md and FILE-*.png.
Exit status: 0 all targets hold, 1 some are missed, 2 wrong usage.
"""

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

from bench.sim import data, judge, outages, plots, policies, report, scenarios, whatif
from bench.sim.run import Result, run
from bench.sim.scenarios import Scenario

LOAD_S, OUTAGE_S, BIG_S = 120.0, 240.0, 60.0
FLAPPING_S = {"flapping": 7200.0, "shut-out": 300.0}
BIG_REGIONS, BIG_ROUTERS = 30, 10


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for; print tables."""
    options = _options(sys.argv[1:] if argv is None else argv)
    quiet()
    try:
        chosen = _scenarios(options)
    except ValueError as error:
        print(f"bench.sim: {error}", file=sys.stderr)
        return 2
    jobs = [(scenario, seed) for scenario in chosen for seed in range(1, options.seeds + 1)]
    by_name: dict[str, list[Result]] = {}
    for (scenario, seed), results in zip(jobs, _compared(jobs, options.jobs), strict=True):
        by_name.setdefault(scenario.name, []).extend(results)
        print(f"{scenario.name}, seed {seed}: {report.speed(results)}", file=sys.stderr)
    lines = [line for each in chosen for line in judge.judge(each, by_name[each.name])]
    text = _text(chosen, by_name, lines)
    print(text)
    if options.out:
        _keep(Path(options.out), chosen, by_name, text)
    return 1 if any(line.verdict != "holds" for line in lines) else 0


def _compared(jobs: Sequence[tuple[Scenario, int]], processes: int) -> Iterator[list[Result]]:
    if processes == 1:
        yield from (compare(scenario, seed) for scenario, seed in jobs)
        return
    with ProcessPoolExecutor(processes, initializer=quiet) as pool:
        yield from pool.map(compare, *zip(*jobs, strict=True))


def compare(scenario: Scenario, seed: int) -> list[Result]:
    """Run the product, then its rivals within its share of tasks that leave home.

    Those that nothing is judged against run with the first seed only, to be shown.
    """
    ours = run(scenario, "product", seed)
    judged = () if scenario.script else policies.CONSTRAINED
    rivals = [rival for rival in scenario.rivals if seed == 1 or rival in judged]
    return [ours, *(run(scenario, rival, seed, ours.abroad) for rival in rivals)]


def quiet() -> None:
    """Keep routers from logging each outage that each of them sees."""
    logging.getLogger("router").setLevel(logging.ERROR)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.sim")
    parser.add_argument("--scenario", default="loads,outages")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--policies", help="rivals; all of the scenario by default")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--length-s", type=float, help="of the load, or of the outage")
    parser.add_argument("--service-s", type=float, help="mean service time")
    parser.add_argument("--report-s", type=float, help="how often loads are reported")
    parser.add_argument("--what-if", default="", help=f"of the product: {', '.join(whatif.NAMES)}")
    parser.add_argument("--out", help="JSON of all figures; tables and pictures beside it")
    return parser.parse_args(argv)


def _scenarios(options: argparse.Namespace) -> list[Scenario]:
    chosen: list[Scenario] = []
    for name in options.scenario.split(","):
        if name == "loads":
            chosen += scenarios.loads(options.length_s or LOAD_S, options.service_s or 0.5)
        elif name == "outages":
            chosen += [_broken(each, options) for each in outages.SHAPES]
        elif name == "big":
            chosen.append(scenarios.big(BIG_REGIONS, BIG_ROUTERS, options.length_s or BIG_S))
        elif name in outages.SHAPES:
            chosen.append(_broken(name, options))
        else:
            raise ValueError(
                f"no scenario {name}: loads, outages, big, {', '.join(outages.SHAPES)}"
            )
    if options.policies is not None:
        rivals = tuple(name for name in options.policies.split(",") if name)
        if unknown := set(rivals) - set(policies.NAMES):
            raise ValueError(f"no policy {unknown.pop()}: {', '.join(policies.NAMES)}")
        chosen = [replace(each, rivals=rivals) for each in chosen]
    what_ifs = frozenset(name for name in options.what_if.split(",") if name)
    if unknown := what_ifs - set(whatif.NAMES):
        raise ValueError(f"no what-if {min(unknown)}: {', '.join(whatif.NAMES)}")
    if options.report_s:
        chosen = [_reporting(each, options.report_s) for each in chosen]
    return [replace(each, settings=replace(each.settings, what_ifs=what_ifs)) for each in chosen]


def _reporting(scenario: Scenario, report_s: float) -> Scenario:
    return replace(scenario, settings=replace(scenario.settings, report_s=report_s))


def _broken(name: str, options: argparse.Namespace) -> Scenario:
    default_s = FLAPPING_S.get(name, OUTAGE_S)
    scenario = scenarios.broken(name, options.length_s or default_s)
    service_s = options.service_s or scenario.settings.service_s
    return replace(scenario, settings=replace(scenario.settings, service_s=service_s))


def _text(
    chosen: Sequence[Scenario], by_name: dict[str, list[Result]], lines: Sequence[judge.Line]
) -> str:
    parts: list[str] = []
    for scenario in chosen:
        parts.append(f"## {scenario.name}\n{_about(scenario)}\n")
        parts.append(report.policies(by_name[scenario.name]) + "\n")
    parts.append(f"## Targets\n\n{report.verdicts(lines)}\n")
    parts.append(report.speed([result for each in by_name.values() for result in each]))
    return "\n".join(parts)


def _about(scenario: Scenario) -> str:
    settings = scenario.settings
    about = (
        f"{len(settings.matrix.regions)} regions ({settings.matrix.source}), {settings.slots} "
        f"slots each, {settings.routers} routers each, {scenario.load:.0%} load, "
        f"{scenario.rate:.0f} tasks/s of {settings.service_s:g} s, {settings.fenced:.0%} "
        f"fenced, reports each {settings.report_s:g} s."
    )
    if scenario.script is not None:
        script = scenario.script
        hours = data.real_hours(script.like)
        real = f", which lasted {hours} h" if hours else ""
        about += f" Outage {script.begins_s:g} to {script.ends_s:g} s, after {script.like}{real}."
    return about


def _keep(
    path: Path, chosen: Sequence[Scenario], by_name: dict[str, list[Result]], text: str
) -> None:
    kept = {name: [asdict(result) for result in results] for name, results in by_name.items()}
    path.write_text(json.dumps(kept, separators=(",", ":")) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(text + "\n", encoding="utf-8")
    try:
        drawn = plots.draw({each.name: each for each in chosen}, by_name, path.with_suffix(""))
    except plots.NoMatplotlib as error:
        print(f"bench.sim: {error}", file=sys.stderr)
        return
    print(*drawn, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
