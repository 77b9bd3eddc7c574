"""The table of docs/invariants.md: `python -m tests.mutants.table [words...]` measures and prints.

With words, only of changes whose names hold one of them. Each takes up to a minute; alone on two
cores all take about 20 minutes.
"""

import sys
import tempfile
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.hunt import hunt
from tradewind.local.scratch import redis_process


def main() -> None:
    """Print a row for each change as soon as it is measured."""
    words = sys.argv[1:]
    with (
        tempfile.TemporaryDirectory() as home,
        redis_process(Path(home) / "a") as a,
        redis_process(Path(home) / "b") as b,
        pytest.MonkeyPatch.context() as patch,
    ):
        for mutant in MUTANTS:
            if not words or any(word in mutant.what for word in words):
                catch = hunt(mutant.edit, [a, b], patch)
                found = f"{catch.by} | {catch.steps}" if catch else "nobody | -"
                sys.stdout.write(f"| {mutant.invariant} | {mutant.what} | {found} |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
