"""The chaos suite: faults at random under steady load, judged from outside.

    python -m tests.chaos [--seeds 1-10] [--length-s 480] [--out build/chaos] [--mutant NAME]

A seed that has a result of this code in the directory is not run again, so a suite that was ended
goes on where it was. Each run leaves seed-N.json (figures and violations), seed-N.txt (what went
wrong, with the shortest history of each kind) and seed-N.png (its time). Ends with 1 if a promise
was broken, or a run could not be made.
"""

import argparse
import asyncio
import json
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console

from tests.chaos import report
from tests.chaos.check import judge
from tests.chaos.mutants import MUTANTS, broken_tree, digest
from tests.chaos.run import run
from tradewind.local.errors import LocalSetupError

ROOT: Final = Path(__file__).resolve().parents[2]
_WIDE: Final = 150


def main(args: Sequence[str]) -> int:
    """Run what the command line asks for, and print a table."""
    options = _parser().parse_args(args)
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    figures: list[report.Figures] = []
    void: list[int] = []
    for seed in options.seeds:
        try:
            figures.append(_one(seed, options.length_s, out, options.mutant))
        except LocalSetupError as error:
            sys.stdout.write(f"seed {seed} shows nothing, run it again: {error}\n")
            void.append(seed)
    Console(width=_WIDE).print(report.summary(figures))
    return 1 if void or any(one.violations for one in figures) else 0


def _one(seed: int, length_s: float, out: Path, mutant: str) -> report.Figures:
    stem = out / (f"{mutant}-seed-{seed}" if mutant else f"seed-{seed}")
    known, code = stem.with_suffix(".json"), digest(ROOT)
    if known.exists():
        kept = json.loads(known.read_text())
        if (kept["length_s"], kept.get("code")) == (length_s, code):
            return report.Figures(**kept)
    sys.stdout.write(f"seed {seed}: {length_s:g} s\n")
    home = Path(tempfile.mkdtemp(prefix=f"chaos-{seed}-"))
    began_at = time.monotonic()
    tree = broken_tree(mutant, home / "tree") if mutant else ROOT
    history, failed = asyncio.run(run(seed, length_s, home, tree))
    verdict = judge(history)
    figures = report.Figures.of(seed, length_s, code, history, verdict)
    told = [*report.shortest(history, verdict.violations), *(f"not done: {one}" for one in failed)]
    stem.with_suffix(".txt").write_text("\n".join(told) + "\n")
    report.draw(history, seed, stem.with_suffix(".png"))
    known.write_text(json.dumps(asdict(figures), indent=2))
    sys.stdout.write("\n".join(told) + f"\nseed {seed} took {time.monotonic() - began_at:.0f} s\n")
    if verdict.violations:
        sys.stdout.write(f"logs and data stay in {home}\n")
    else:
        shutil.rmtree(home)
    return figures


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=_seeds, default=[1], help="such as 3 or 1-10 (default 1)")
    parser.add_argument("--length-s", type=float, default=480.0, help="of load (default 480)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "chaos")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), default="", help="break it on purpose")
    return parser


def _seeds(text: str) -> list[int]:
    return [seed for part in text.split(",") for seed in _range(part)]


def _range(part: str) -> Iterator[int]:
    first, _, last = part.partition("-")
    yield from range(int(first), int(last or first) + 1)


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s")
    logging.getLogger("tests.chaos").setLevel(logging.INFO)
    sys.exit(main(sys.argv[1:]))
