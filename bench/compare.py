"""Two results beside each other: what changed, as far as their noise lets one say.

`bench/compare OLD.json NEW.json` compares figures that are ratios within one run, so the two runs
may be of different days; bytes, milliseconds and megabytes are compared as they are. A verdict is
`no difference seen` where the ranges of the repetitions overlap. Standard library only.

Exit status: 0 no regression, 1 a regression beyond the threshold, 2 a file that is no result.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

THRESHOLD = 0.10
FEWEST = 3  # repetitions, below which a range says nothing

SAME = "no difference seen"
TOO_FEW = "too few repetitions"
BETTER = "better"
SLIGHTLY_WORSE = "worse, within the threshold"
REGRESSION = "REGRESSION"

_SPIN_APART = 1.3


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both files. `ratio` is new over old."""

    row: str
    name: str
    old: float
    new: float
    ratio: float
    verdict: str


def verdict(
    old: Sequence[float], new: Sequence[float], *, higher_is_better: bool, threshold: float
) -> str:
    """What may be said of two sets of repetitions. `threshold` is a share of the old median."""
    if min(old) <= max(new) and min(new) <= max(old):
        return SAME
    if min(len(old), len(new)) < FEWEST:
        return TOO_FEW
    if (min(new) > max(old)) == higher_is_better:
        return BETTER
    before, after = _median(old), _median(new)
    return REGRESSION if abs(after - before) > threshold * abs(before) else SLIGHTLY_WORSE


def compare(
    old: Mapping[str, Any], new: Mapping[str, Any], threshold: float
) -> tuple[list[Compared], list[str]]:
    """Every figure of both, and the names of those that only one of them has."""
    before, after = _figures(old), _figures(new)
    compared: list[Compared] = []
    for key in before:
        if key not in after:
            continue
        one, other = before[key], after[key]
        median, now = _median(one["values"]), _median(other["values"])
        said = verdict(
            one["values"],
            other["values"],
            higher_is_better=other["better"] == "higher",
            threshold=threshold,
        )
        compared.append(Compared(*key, median, now, now / median if median else 1.0, said))
    lonely = [": ".join(key) for key in (*before, *after) if (key in before) != (key in after)]
    return compared, lonely


def main(argv: Sequence[str] | None = None) -> int:
    """Print ratios and verdicts."""
    parser = argparse.ArgumentParser(
        prog="bench/compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument(
        "--threshold",
        type=_share,
        default=THRESHOLD,
        metavar="SHARE",
        help=f"a worse median by more than this share is a regression (default: {THRESHOLD})",
    )
    given = parser.parse_args(argv)
    try:
        old, new = _read(given.old), _read(given.new)
    except ValueError as error:
        sys.stderr.write(f"bench/compare: {error}\n")
        return 2
    compared, lonely = compare(old, new, given.threshold)
    if not compared:
        sys.stderr.write("bench/compare: the files have no figure in common\n")
        return 2
    _print(compared, lonely, _warnings(old, new))
    return 1 if any(one.verdict == REGRESSION for one in compared) else 0


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share from 0 to below 1, such as 0.1")
    return share


def _print(compared: Sequence[Compared], lonely: Sequence[str], warnings: Sequence[str]) -> None:
    for warning in warnings:
        print(f"note: {warning}")
    width = max(len(f"{one.row}: {one.name}") for one in compared)
    print(f"{'':{width}}  {'old':>10}  {'new':>10}  {'new/old':>8}")
    for one in compared:
        name = f"{one.row}: {one.name}"
        print(f"{name:{width}}  {one.old:10.3f}  {one.new:10.3f}  {one.ratio:7.2f}x  {one.verdict}")
    if lonely:
        print(f"only in one of them: {', '.join(lonely)}")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        result: Any = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(result, dict) or "rows" not in result:
        raise ValueError(f"{path} is not a result of `python -m bench`")
    return cast("Mapping[str, Any]", result)


def _figures(result: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {
        (name, one["name"]): one for name, row in result["rows"].items() for one in row["figures"]
    }


def _warnings(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    found = [
        f"{key} differs: {old['machine'].get(key)} and {new['machine'].get(key)}"
        for key in ("cpu", "cores", "python", "redis", "grpcio")
        if old["machine"].get(key) != new["machine"].get(key)
    ]
    if old.get("sizes") != new.get("sizes"):
        found.append("they measured other numbers of tasks: compare runs of the same length only")
    for name, result in (("old", old), ("new", new)):
        spins = [sample["spin_ms"] for row in result["rows"].values() for sample in row["samples"]]
        if spins and _median(spins) > _SPIN_APART * min(spins):
            found.append(
                f"the machine was busy during the {name} run (spin {min(spins):.0f} to "
                f"{max(spins):.0f} ms)"
            )
    return found


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


if __name__ == "__main__":
    sys.exit(main())
