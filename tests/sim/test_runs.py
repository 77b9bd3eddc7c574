import dataclasses
import random
from pathlib import Path

import pytest

from bench.sim import __main__, data, matrices, outages, policies, traces
from bench.sim.judge import judge
from bench.sim.progress import EVERY_S, Progress
from bench.sim.run import Result, run
from bench.sim.scenarios import Scenario


def figures(result: Result) -> dict[str, object]:
    return {name: value for name, value in dataclasses.asdict(result).items() if name != "cpu_s"}


def test_equal_seeds_give_equal_figures_and_other_seeds_others(calm: Scenario) -> None:
    first, again, other = (run(calm, "product", seed) for seed in (1, 1, 2))
    assert figures(first) == figures(again)
    assert first.delays_s != other.delays_s
    assert first.simulated > first.tasks > 0  # those of the warm-up cost time, too


def test_callers_that_repeat_do_so_at_equal_times_for_equal_seeds(calm: Scenario) -> None:
    how = outages.Condition(reach="refuses")
    changes = tuple(
        outages.Change(at_s, name, condition)
        for at_s, condition in ((20.0, how), (35.0, outages.GOOD))
        for name in ("near", "far", "other")
    )
    script = outages.Script("herd", "", 20.0, 35.0, changes)
    herd = dataclasses.replace(calm, script=script, length_s=50.0)
    first = run(herd, "product", 1)
    random.random()  # what else draws from it must not matter
    again = run(herd, "product", 1)
    assert first.success == 1.0
    assert first.max_s > 10.0
    assert figures(first) == figures(again)


def test_the_oracle_is_not_worse_than_any_other_policy(calm: Scenario) -> None:
    best = run(calm, "oracle", 1)
    assert best.tasks > 1_000
    for rival in ("product", "nearest", "argmin", "p2c"):
        other = run(calm, rival, 1, 0.3)
        assert best.p99_s <= other.p99_s, rival
        assert best.p50_s <= other.p50_s, rival


@pytest.mark.parametrize("policy", policies.CONSTRAINED)
def test_a_constrained_policy_keeps_to_the_share_that_may_leave_home(
    calm: Scenario, policy: str
) -> None:
    calm = dataclasses.replace(calm, length_s=120.0)
    assert run(calm, policy, 1, 0.15).abroad == pytest.approx(0.15, abs=0.03)


@pytest.mark.long
def test_the_oracle_sends_abroad_what_it_may_within_a_point_and_no_more_than_helps(
    calm: Scenario,
) -> None:
    calm = dataclasses.replace(calm, length_s=120.0)
    free, bound, lavish = (
        run(calm, "oracle", 1),
        run(calm, "oracle-quota", 1, 0.15),
        run(calm, "oracle-quota", 1, 0.9),
    )
    assert free.abroad > 0.2
    assert bound.abroad == pytest.approx(0.15, abs=0.01)
    assert bound.p99_s > free.p99_s
    assert (lavish.abroad, lavish.p99_s) == (free.abroad, free.p99_s)


def test_only_a_policy_that_is_blind_for_fences_crosses_them(broken: Scenario) -> None:
    short = dataclasses.replace(broken, length_s=165.0)
    assert run(short, "p2c-blind", 1).outside_fence > 50
    assert run(short, "product", 1).outside_fence == 0


@pytest.mark.parametrize(
    "how",
    [
        outages.Condition(reach="refuses"),
        outages.Condition(reach="silent"),
        outages.Condition(slow=10.0, refused=0.15, lost=0.15),
    ],
    ids=["refuses", "silent", "gray"],
)
def test_submits_are_stored_at_most_once_and_succeed_only_if_stored(
    broken: Scenario, how: outages.Condition
) -> None:
    assert broken.script is not None
    changes = (outages.Change(30.0, "other", how), outages.Change(60.0, "other", outages.GOOD))
    script = outages.Script("x", "", 30.0, 60.0, changes)
    result = run(dataclasses.replace(broken, script=script, length_s=90.0), "product", 1)
    submitted, succeeded = map(sum, zip(*result.submits, strict=True))
    stored = sum(sum(each) for each in result.arrived.values())
    assert submitted == result.tasks
    # What came while the world warmed up is stored as well, and not counted as submitted.
    warm = broken.rate * 17
    assert succeeded <= stored <= submitted + 1.3 * warm
    assert result.success > 0.95


def test_a_hard_failure_empties_a_region_and_its_share_comes_back(broken: Scenario) -> None:
    result = run(broken, "product", 1)
    failed, before = result.arrived["other"][16], result.arrived["other"][10]
    assert before > 20
    assert failed == 0
    changes = {router: len(times) for router, times in result.changes["other"].items()}
    assert {n for router, n in changes.items() if router.startswith("other/")} == {2}
    assert max(changes.values()) == 2  # where its guests come from it is back last
    held = {line.target: line.verdict for line in judge(broken, [result])}
    assert held["submits succeed, a permitted region up"] == "holds"
    assert held["back to normal shares after recovery"] == "holds"


def test_a_drained_region_gets_nothing_once_routers_have_heard(broken: Scenario) -> None:
    how = outages.Condition(drained=True)
    changes = (outages.Change(30.0, "far", how), outages.Change(60.0, "far", outages.GOOD))
    script = outages.Script("mistaken-drain", "", 30.0, 60.0, changes)
    drained = dataclasses.replace(broken, script=script, length_s=90.0)
    result = run(drained, "product", 1)
    assert result.drained_hits == 0
    assert result.arrived["far"][4] == 0 < result.arrived["far"][8]
    assert run(drained, "p2c", 1).drained_hits == 0


def test_without_the_shared_data_there_is_something_built_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    matrix, trace = matrices.load("azure"), traces.load("conversation")
    assert (matrix.source, trace.source) == ("globe", "poisson")
    assert len(matrix.regions) == 30
    assert matrix.rtt_ms["netherlands", "frankfurt"] == pytest.approx(10, abs=5)
    assert data.real_hours("az-cus-2024-07") == ""
    assert sum(trace.gaps) / len(trace.gaps) == pytest.approx(1.0)


def test_regions_joined_by_short_links_are_one_residency_group() -> None:
    groups = matrices.load("globe", 5).groups
    assert groups["netherlands"] == groups["frankfurt"] != groups["virginia"]
    assert groups["singapore"] == "singapore"


@pytest.mark.long
def test_a_run_from_the_command_line_prints_a_table_and_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "sim.json"
    wanted = ["--scenario", "hard-down", "--seeds", "1", "--length-s", "20", "--service-s", "10"]
    wanted += ["--report-s", "5"]
    status = __main__.main([*wanted, "--policies", "p2c-blind", "--out", str(out)])
    printed = capsys.readouterr().out
    assert status in {0, 1}
    assert "| p2c-blind " in printed
    assert "tasks outside their fence" in out.with_suffix(".md").read_text()
    assert {path.name for path in tmp_path.glob("*.png")} == {"sim-hard-down.png", "sim-fences.png"}


def test_a_long_run_says_how_far_it_is_and_a_short_one_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    times_s = iter((100.0, 101.0, 100.0 + EVERY_S, 101.0 + EVERY_S))
    progress = Progress("big, product, seed 1", 60.0, lambda: next(times_s))
    progress.at(3.0, 900)
    assert capsys.readouterr().err == ""
    progress.at(30.0, 20_000)
    told = "big, product, seed 1: 30 of 60 s, 20,000 tasks, 2,000 tasks/s\n"
    assert capsys.readouterr().err == told
    progress.at(33.0, 21_000)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "wrong", [["--scenario", "lods"], ["--policies", "p3c"], ["--what-if", "luck"]]
)
def test_a_wrong_name_is_usage_and_lists_the_right_ones(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main(wrong) == 2
    assert wrong[1] in capsys.readouterr().err
