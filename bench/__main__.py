"""`make bench`: every figure of docs/performance.md, beside its floor, in one run.

    python -m bench [--quick] [--only ROW,...] [--reps N] [--peers NAME,...] [--out FILE]
    python -m bench compare OLD.json NEW.json
    python -m bench table RESULT.json     targets and figures, then what a task costs, as Markdown
    python -m bench plot RESULT.json      pictures beside the file

Exit status: 0 all was measured, 1 something was not, 2 wrong usage, 130 interrupted.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import compare, decide, due, plots, report, watch
from bench.machine import describe
from bench.rig import peers
from bench.rig.lab import QUICK, Lab, Sizes
from bench.rig.processes import ROOT
from bench.rows.every import ROWS
from bench.taking import FORMAT, take, write

RESULTS = Path(__file__).parent / "results"

_REPETITIONS, _QUICK_REPETITIONS = 5, 1
_INTERRUPTED = 130  # 128 and the number of SIGINT, as shells say it


def _due(*, quick: bool) -> dict[str, Any]:
    if quick:
        return due.measure(repetitions=1, tasks=20, far=2_000)
    return due.measure(repetitions=5, tasks=100, far=100_000)


def _watch(*, quick: bool) -> dict[str, Any]:
    if quick:
        return watch.measure(repetitions=1, tasks=10, watchers=100, idle_s=2.0)
    return watch.measure(repetitions=5, tasks=50, watchers=1_000, idle_s=10.0)


def _decide(*, quick: bool) -> dict[str, Any]:
    return decide.measure(repetitions=1, tasks=200) if quick else decide.measure()


#: Measurements of their own kind, run when they are named.
MORE: dict[str, Callable[..., dict[str, Any]]] = {
    "due": _due,
    "watch": _watch,
    "decide": _decide,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and keep, or do something with a result."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["compare"]:
        return compare.main(arguments[1:])
    if arguments[:1] == ["table"] and len(arguments) == 2:
        result = json.loads(Path(arguments[1]).read_text())
        print(f"{report.markdown(result)}\n\n{report.costs(result)}")
        return 0
    if arguments[:1] == ["plot"] and len(arguments) == 2:
        return _plot(Path(arguments[1]), sys.stdout.write)
    given = _parser().parse_args(arguments)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: in order
    try:
        return _measure(given)
    finally:
        signal.signal(signal.SIGTERM, before)


def _measure(given: argparse.Namespace) -> int:
    found, missing = peers.find(_peers(given))
    for name, why in missing.items():
        _say(f"without {name}: {why}")
    sizes = QUICK if given.quick else Sizes()
    repetitions = given.reps or (_QUICK_REPETITIONS if given.quick else _REPETITIONS)
    result: dict[str, Any] = {
        "format": FORMAT,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),  # noqa: TID251 - of this run
        "commit": _commit(),
        "machine": describe(),
        "sizes": asdict(sizes),
        "quick": given.quick,
        "repetitions": repetitions,
        "peers": sorted(found),
        "rows": {},
    }
    status = 0
    try:
        with tempfile.TemporaryDirectory(prefix="tradewind-bench-") as folder:
            lab = Lab(Path(folder), sizes, found)
            for name in given.only:
                if name in MORE:
                    _say(f"{name}: of its own kind")
                    result.setdefault("more", {})[name] = MORE[name](quick=given.quick)
                    continue

                def keep(row: Any, name: str = name) -> None:
                    result["rows"][name] = row
                    write(given.out, result)

                take(ROWS[name], lab, repetitions, _say, keep)
    except KeyboardInterrupt:
        result["interrupted"] = True
        status = _INTERRUPTED
    write(given.out, result)
    print(report.text(result))
    for name, more in result.get("more", {}).items():
        print(f"\n{name}: {json.dumps(more, indent=2)}")
    print(f"\nkept in {given.out}{', interrupted' if status else ''}")
    _plot(given.out, _say)
    if wrong := report.failed(result):
        _say(f"not measured: {', '.join(wrong)}")
        status = status or 1
    return status


def _peers(given: argparse.Namespace) -> Sequence[str]:
    if given.peers is not None:
        return given.peers
    return () if given.quick else peers.NAMES


def _plot(path: Path, say: Callable[[str], Any]) -> int:
    try:
        pictures = plots.draw(json.loads(path.read_text()), path.with_suffix(""))
    except plots.NoMatplotlib as missing:
        say(f"{missing}\n")
        return 1
    for picture in pictures:
        say(f"drawn: {picture}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="small numbers, once: does every row still run?")
    add(
        "--only",
        type=_names((*ROWS, *MORE)),
        default=list(ROWS),
        metavar="ROW,...",
        help=f"of {', '.join(ROWS)}; and {', '.join(MORE)}, which are not run unless named",
    )
    add("--reps", type=int, default=0, metavar="N", help="repetitions (default: 5, --quick: 1)")
    add(
        "--peers",
        type=_names(peers.NAMES),
        metavar="NAME,...",
        help=f"other queues to run beside, or none (default: those that are here of "
        f"{', '.join(peers.NAMES)}, with --quick none; see {peers.HOME_VARIABLE}, "
        f"{peers.HARNESS_VARIABLE})",
    )
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")  # noqa: TID251 - a file name
    add("--out", type=Path, default=RESULTS / f"{stamp}.json", metavar="FILE", help="the result")
    return parser


def _names(known: Sequence[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        names = [] if text == "none" else [name.strip() for name in text.split(",")]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(known)}")
        return names

    return read


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return run.stdout.strip()


def _say(line: str) -> None:
    sys.stderr.write(f"{line.rstrip()}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
