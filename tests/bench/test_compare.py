"""What two results say about a change."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.compare import BETTER, REGRESSION, SAME, SLIGHTLY_WORSE, TOO_FEW, verdict

ROOT = Path(__file__).parents[2]

VERDICTS = {
    "more of a rate is better": ([1.0, 1.1, 1.2], [1.3, 1.4, 1.5], True, BETTER),
    "less of a rate is a regression": ([1.3, 1.4, 1.5], [1.0, 1.1, 1.2], True, REGRESSION),
    "less of a cost is better": ([1.3, 1.4, 1.5], [1.0, 1.1, 1.2], False, BETTER),
    "more of a cost is a regression": ([1.0, 1.1, 1.2], [1.3, 1.4, 1.5], False, REGRESSION),
    "ranges that overlap say nothing": ([1.0, 1.0, 2.0], [1.9, 3.0, 3.0], True, SAME),
    "ranges that touch overlap": ([1.0, 1.5, 2.0], [2.0, 2.5, 3.0], True, SAME),
    "worse by less than the threshold": ([1.0, 1.0, 1.0], [0.95, 0.95, 0.95], True, SLIGHTLY_WORSE),
    "worse by just the threshold": ([1.0, 1.0, 1.0], [1.1, 1.1, 1.1], False, SLIGHTLY_WORSE),
    "two repetitions are no range": ([1.0, 1.0], [0.5, 0.5, 0.5], True, TOO_FEW),
    "one repetition is no range either": ([1.0, 1.0, 1.0], [0.5], True, TOO_FEW),
    "equal numbers": ([0.0], [0.0], True, SAME),
}


@pytest.mark.parametrize(("old", "new", "more", "said"), VERDICTS.values(), ids=VERDICTS)
def test_verdict(old: Sequence[float], new: Sequence[float], more: bool, said: str) -> None:
    assert verdict(old, new, higher_is_better=more, threshold=0.1001) == said


def result(path: Path, **figures: Sequence[float]) -> Path:
    """A result with one row, whose figures are rates."""
    row = {
        "figures": [{"name": n, "better": "higher", "values": v} for n, v in figures.items()],
        "samples": [],
    }
    path.write_text(json.dumps({"machine": {}, "rows": {"drain": row}}))
    return path


def compared(*arguments: Any) -> "subprocess.CompletedProcess[str]":
    """What the script says, run as people run it but with this interpreter."""
    command = [sys.executable, str(ROOT / "bench" / "compare"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_regression_is_an_exit_status_of_one(tmp_path: Path) -> None:
    old = result(tmp_path / "old.json", rate=[10, 11, 12], other=[1, 2, 3], gone=[1])
    new = result(tmp_path / "new.json", rate=[5, 6, 7], other=[1, 2, 3])
    run = compared(old, new)
    assert run.returncode == 1, run.stderr
    lines = {line.split("  ")[0]: line for line in run.stdout.splitlines()}
    assert lines["drain: rate"].split()[-2:] == ["0.55x", REGRESSION]
    assert lines["drain: other"].endswith(SAME)
    assert "only in one of them: drain: gone" in run.stdout
    assert compared(new, old).returncode == 0
    assert compared(old, new, "--threshold", "0.6").returncode == 0


def test_a_file_that_is_no_result_is_wrong_usage(tmp_path: Path) -> None:
    good = result(tmp_path / "good.json", rate=[1])
    for bad in ("[]", "{}", "no JSON"):
        (tmp_path / "bad.json").write_text(bad)
        run = compared(good, tmp_path / "bad.json")
        assert run.returncode == 2
        assert "bad.json" in run.stderr
    assert compared(good, tmp_path / "absent.json").returncode == 2
    assert compared(good, result(tmp_path / "else.json", other=[1])).returncode == 2
