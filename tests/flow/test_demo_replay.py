"""What a replay reads, and how it counts."""

from pathlib import Path
from typing import Any

import pytest

from bench.replay_input import BASE_S, TOKEN_S, BadInput, read_rtt, read_trace, write_config
from bench.replay_report import Run, percentile, summarise
from bench.replay_run import main
from tradewind import Receipt, State
from tradewind.client.views import task_of
from tradewind.regions import load
from tradewind.v1 import task_pb2

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def trace(tmp_path: Path, rows: str) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + rows)
    return path


def test_a_trace_is_scaled_in_time_and_in_service_time(tmp_path: Path) -> None:
    rows = "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:16:46.6805900,1,100\n"
    first, second = read_trace(trace(tmp_path, rows), 60, ["a"], None)
    assert (first.at_s, second.at_s) == (0.0, 1.0)
    assert second.seconds == pytest.approx((BASE_S + 100 * TOKEN_S) / 60)


BAD_TRACES = {
    "without rows": "",
    "without a time": "yesterday,1,2\n",
    "without tokens": "2023-11-16 18:15:46.6805900,1\n",
    "with tokens that are none": "2023-11-16 18:15:46.6805900,1,many\n",
}


@pytest.mark.parametrize("rows", list(BAD_TRACES.values()), ids=list(BAD_TRACES))
def test_a_trace_that_is_none_is_one_sentence_and_exit_code_2(
    tmp_path: Path, rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(trace(tmp_path, rows))]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_round_trips_come_from_the_matrix_in_either_direction(tmp_path: Path) -> None:
    matrix = tmp_path / "rtt.csv"
    matrix.write_text("src,dst,rtt_p95_ms\nA,A,\nB,A,70\nA,C,100\nC,B,120\n")
    assert read_rtt(matrix, ["A", "B", "C"]) == {
        ("A", "B"): 70.0,
        ("A", "C"): 100.0,
        ("B", "C"): 120.0,
    }
    with pytest.raises(BadInput, match="between A and D"):
        read_rtt(matrix, ["A", "D"])


@pytest.mark.parametrize("names", [["East US"], ["East US", "West Europe", "Southeast Asia"]])
def test_the_written_regions_can_be_loaded(tmp_path: Path, names: list[str]) -> None:
    config = tmp_path / "regions.yaml"
    write_config(config, names, read_rtt(None, names))
    fleet = load(config)
    assert list(fleet.regions) == [name.lower().replace(" ", "-") for name in names]


def test_percentiles_are_by_nearest_rank() -> None:
    ordered = [float(value) for value in range(1, 101)]
    assert [percentile(ordered, share) for share in (0.5, 0.95, 0.99)] == [51.0, 96.0, 100.0]
    assert percentile([], 0.5) == 0.0


def run_of(**changes: Any) -> Any:
    def view(index: int) -> Any:
        return task_of(
            task_pb2.Task(task_id=f"id-{index}", state=task_pb2.TASK_STATE_COMPLETED, attempts=1)
        )

    seen: dict[str, Any] = {
        "regions": ["a", "b"],
        "origins": {0: "a", 1: "b"},
        "submitted_ns": {0: 0, 1: 0},
        "receipts": {n: Receipt(f"id-{n}", "a", 0, State.PENDING, rule="home") for n in (0, 1)},
        "refused": {},
        "tasks": {0: view(0), 1: view(1)},
        "runs": [Run(0, "id-0", "a", 1, 2_000_000), Run(1, "id-1", "a", 1, 4_000_000)],
        "late_s": 0.0,
    }
    return summarise(**(seen | changes))


def test_a_run_where_all_that_was_accepted_finished_once_is_sound() -> None:
    summary = run_of()
    assert summary.is_sound
    [a, b] = summary.regions
    assert (a.ran, a.home_share, b.ran, b.home_share) == (2, 1.0, 0, 0.0)
    assert a.start_p99_ms == 4.0


def test_a_lost_task_or_one_that_ran_twice_is_not_sound() -> None:
    once = Run(0, "id-0", "a", 1, 2_000_000)
    again = Run(1, "id-1", "a", 1, 1)
    assert not run_of(runs=[once]).is_sound
    assert not run_of(runs=[once, again, again]).is_sound
    assert not run_of(tasks={}).is_sound
