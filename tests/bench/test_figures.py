"""How repeated numbers are summed up."""

import struct
from pathlib import Path
from typing import Any

import pytest

from bench.figures import Figure, Question, Target, answers, quantile, ratio, slope, standing
from bench.report import markdown, text
from bench.rig import records
from bench.stages import by_part
from bench.taking import Sample, figure, rounds


def sample(repetition: int, contender: str, **metrics: float) -> Sample:
    return Sample(repetition, contender, 1.0, 0.0, 0.0, metrics, "" if metrics else "it fell over")


SAMPLES = [
    sample(0, "tradewind", per_s=10.0),
    sample(0, "floor", per_s=40.0),
    sample(1, "floor", per_s=50.0),
    sample(1, "tradewind", per_s=20.0),
    sample(2, "tradewind", per_s=30.0),
    sample(2, "floor"),
]
RATE = Question("rate / floor", ratio("per_s", "floor"), ">=", 0.3)


def test_a_ratio_is_taken_within_each_repetition() -> None:
    assert answers(RATE, rounds(SAMPLES)) == [0.25, 0.4]


def test_a_figure_of_a_contender_that_never_ran_is_none() -> None:
    assert figure(Question("x", ratio("per_s", "bullmq"), ">="), rounds(SAMPLES)) is None


@pytest.mark.parametrize(
    ("sense", "values", "stands"),
    [
        (">=", [0.7, 0.8], "holds"),
        (">=", [0.6, 0.8], "on the line"),
        ("<=", [0.8, 0.9], "misses"),
        ("<=", [0.7, 0.7], "holds"),
    ],
)
def test_how_values_stand_to_a_target(sense: str, values: list[float], stands: str) -> None:
    assert standing(Target(">=" if sense == ">=" else "<=", 0.7), values) == stands


def test_a_report_shows_figures_and_what_failed() -> None:
    found = figure(RATE, rounds(SAMPLES))
    row = {
        "title": "Drain",
        "request_id": "off",
        "figures": [found],
        "samples": [one.as_json() for one in SAMPLES],
    }
    result = {"machine": {}, "sizes": {}, "rows": {"drain": row}}
    shown = text(result)
    assert "20.0 (10.0 .. 30.0)" in shown
    assert "failed 1 of 3: it fell over" in shown
    last = "| drain | rate / floor | >= 0.300 x | 0.325 x (0.250 .. 0.400) | on the line |"
    assert markdown(result).splitlines()[-1] == last


def test_the_small_statistics() -> None:
    assert Figure.of([3.0, 1.0, 2.0]) == Figure(2.0, 1.0, 3.0)
    assert quantile([4, 1, 3, 2], 0.5) == 2
    assert slope([(0, 1), (1, 3), (2, 5)]) == pytest.approx(2)
    assert slope([(1, 1), (1, 9)]) == 0


def test_records_of_several_processes_are_counted_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(records.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv(records.CAPACITY_VARIABLE, "3")
    record = records.Recorder()
    assert records.writers(tmp_path) == 0
    for at_s in (0.0, 2.0):
        record(at_s)
    # Another process may append to its file, and be in the middle of a record.
    (tmp_path / "other.rec").write_bytes(struct.pack("<dd", 1.0, 1.5) + b"half")
    assert records.count(tmp_path) == 3
    assert records.writers(tmp_path) == 2
    assert [submitted for submitted, _ in records.read(tmp_path)] == [1.0, 0.0, 2.0]
    for at_s in (3.0, 4.0):  # one more than there is room for
        record(at_s)
    assert records.count(tmp_path) == 4


def test_c_functions_count_for_their_callers() -> None:
    claim, run = ("x/tradewind/store/claims.py", 1, "claim"), ("x/worker/loop.py", 1, "run")
    stats: dict[Any, Any] = {
        claim: (1, 1, 1.0, 3.0, {}),
        run: (1, 1, 2.0, 6.0, {}),
        ("~", 0, "<built-in pack>"): (
            *(4, 4, 5.0, 5.0),
            {claim: (1, 1, 2.0, 2.0), run: (3, 3, 3.0, 3.0)},
        ),
    }
    assert by_part(stats) == {"store client": 3 / 8, "worker": 5 / 8}
