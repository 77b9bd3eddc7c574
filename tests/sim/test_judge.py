import dataclasses
import math

import pytest

from bench.sim.judge import (
    Line,
    back_after_s,
    flaps,
    judge,
    overshoot,
    overshoot_by_work,
    shut_out_s,
)
from bench.sim.report import table, verdicts
from bench.sim.run import Result
from bench.sim.scenarios import Scenario

MINUTE, HOUR = 60.0, 3600.0


def result(policy: str = "product", seed: int = 1, **figures: object) -> Result:
    usual = Result(
        scenario="calm", policy=policy, seed=seed, tasks=10, p50_s=0.0, p95_s=0.1, p99_s=0.5,
        max_s=1.0, home=0.75, outside_fence=0, drained_hits=0, success=1.0, arrived={}, work_s={},
        guests=0.0, submits=[], changes={}, delays_s=[], events=0, cpu_s=0.0,
    )  # fmt: skip
    return dataclasses.replace(usual, **figures)


FLAPS: dict[str, tuple[list[float], tuple[int, int]]] = {
    "never out": ([], (0, 0)),
    "out and in once": ([10.0, 70.0], (2, 0)),
    "a second trip opens long": ([10.0, 70.0, 100.0, 100.0 + 30 * MINUTE], (3, 0)),
    "one that is noticed late is a long one": ([10.0, 10.0 + 24 * MINUTE], (1, 0)),
    "after it changes are counted by the hour": (
        [0.0, 30 * MINUTE, 31 * MINUTE, 40 * MINUTE, 41 * MINUTE, 200 * MINUTE],
        (1, 3),
    ),
    "a long time in is not a long time out": ([0.0, 60.0, 2 * HOUR, 2 * HOUR + 60], (4, 0)),
}


@pytest.mark.parametrize(("times", "counted"), FLAPS.values(), ids=FLAPS)
def test_changes_of_a_flapping_region(times: list[float], counted: tuple[int, int]) -> None:
    assert flaps(times) == counted


def arrived(**by_region: list[int]) -> Result:
    """Tasks of 1 s each."""
    work_s = {name: [float(count) for count in each] for name, each in by_region.items()}
    return result(arrived=by_region, work_s=work_s)


def test_shares_are_back_once_all_regions_stay_near_what_they_had(broken: Scenario) -> None:
    # Buckets of 10 s: normal up to 15, an outage up to 18, then a slow return of `other`.
    others = [20] * 15 + [0] * 3 + [0, 5, 10, 15] + [20] * 10
    rest = [80 - other // 2 for other in others]
    back_s = back_after_s(broken, arrived(other=others, near=rest))
    assert 20.0 <= back_s <= 40.0
    gone = others[:18] + [0] * 14
    assert back_after_s(broken, arrived(other=gone, near=rest)) == math.inf


def test_a_share_that_is_normal_for_a_moment_only_is_not_back(broken: Scenario) -> None:
    swinging = [20] * 15 + [0] * 3 + [60, 0, 0] * 5
    steady = [80] * len(swinging)
    assert back_after_s(broken, arrived(other=swinging, near=steady)) == 0.0  # by the window
    swinging = [20] * 15 + [0] * 3 + ([40] * 4 + [0] * 4) * 2
    assert back_after_s(broken, arrived(other=swinging, near=steady)) == math.inf


def test_overshoot_is_the_busiest_bucket_after_recovery_over_capacity(broken: Scenario) -> None:
    capacity = broken.settings.capacity  # 18 tasks/s: 180 a bucket
    calls = [500] * 18 + [90, 225, 90]
    assert capacity == 18.0
    assert overshoot(broken, arrived(other=calls)) == pytest.approx(1.25)


def test_by_work_it_is_the_time_that_the_tasks_take_over_that_of_the_slots(
    broken: Scenario,
) -> None:
    assert broken.settings.slots == 9  # 90 s a bucket
    busy = result(arrived={}, work_s={"other": [500.0] * 18 + [45.0, 90.0, 99.0], "near": [0.0]})
    assert overshoot_by_work(broken, busy) == pytest.approx(1.1)


def test_a_run_of_short_tasks_is_a_peak_of_tasks_and_none_of_work(broken: Scenario) -> None:
    many = dataclasses.replace(
        arrived(other=[100] * 18 + [300] * 3), work_s={"other": [60.0] * 18 + [100.0] * 3}
    )
    told = {line.target: line.verdict for line in judge(broken, [many])}
    assert told["peak of a region after recovery, of its capacity"] == "MISSED"
    assert told["the same by work, of its slots' time"] == "holds"


def shut_out(broken: Scenario, back: int) -> tuple[Scenario, Result]:
    """Routers shut `other` out at 170 and 190 s; its share is normal again from bucket `back` on.

    The script ends at 180 s.
    """
    others = [20] * 15 + [0] * (back - 15) + [20] * 12
    near = [80 - other for other in others]
    long_s = 30 * MINUTE
    changes = {
        "other": {
            "a": [150.0, 160.0, 170.0, 170.0 + long_s],
            "b": [150.0, 165.0, 190.0, 190.0 + long_s],
            "c": [150.0, 200.0],
        }
    }
    seen = dataclasses.replace(arrived(other=others, near=near), changes=changes)
    return dataclasses.replace(broken, name="shut-out"), seen


@pytest.mark.parametrize(("minutes", "verdict"), [(36, "holds"), (40, "holds"), (42, "MISSED")])
def test_a_region_that_was_shut_out_is_back_within_five_minutes_of_its_long_time(
    broken: Scenario, minutes: int, verdict: str
) -> None:
    scenario, seen = shut_out(broken, 19 + minutes * 6)
    lines = by_target(judge(scenario, [seen]))
    assert "back to normal shares after recovery" not in lines
    line = lines["back to normal shares after the last router shut it out"]
    assert (line.verdict, line.bound) == (verdict, "<= 2460 s")
    assert line.figures[0] == pytest.approx(minutes * MINUTE, abs=10)


def test_one_that_no_router_shut_out_is_held_to_that_from_its_recovery(broken: Scenario) -> None:
    assert shut_out_s(broken, result(changes={"other": {"a": [150.0, 200.0]}})) == 180.0


def by_target(lines: list[Line]) -> dict[str, Line]:
    return {line.target: line for line in lines}


def test_one_seed_that_misses_is_named_in_the_verdict(calm: Scenario) -> None:
    runs = [result(seed=1, home=0.71), result(seed=2, home=0.69)]
    line = by_target(judge(calm, runs))["tasks at home"]
    assert (line.verdict, line.worst, line.bound) == ("MISSED in 1 of 2", 0.69, ">= 0.7")


def test_at_ninety_per_cent_load_no_share_at_home_is_asked_for(calm: Scenario) -> None:
    busy = dataclasses.replace(calm, load=0.9)
    assert "tasks at home" not in by_target(judge(busy, [result()]))


RIVALS = {
    "as fast as P2C within the share": ("p2c-quota", 0.5, "holds"),
    "slower than P2C": ("p2c-quota", 0.49, "MISSED"),
    "one and a half times the oracle": ("oracle-quota", 0.334, "holds"),
    "more than that": ("oracle-quota", 0.32, "MISSED"),
}


@pytest.mark.parametrize(("rival", "p99_s", "verdict"), RIVALS.values(), ids=RIVALS)
def test_p99_is_held_against_a_rival_of_the_same_seed(
    calm: Scenario, rival: str, p99_s: float, verdict: str
) -> None:
    lines = judge(calm, [result(p99_s=0.5), result(rival, p99_s=p99_s)])
    assert next(each for each in lines if each.target.startswith("p99")).verdict == verdict


def test_a_task_outside_its_fence_is_a_miss_in_any_scenario(
    calm: Scenario, broken: Scenario
) -> None:
    for scenario in (calm, broken):
        many = arrived(other=[1] * 26)
        lines = judge(scenario, [dataclasses.replace(many, outside_fence=1)])
        assert by_target(lines)["tasks outside their fence"].verdict == "MISSED"


def test_the_table_of_verdicts_shows_figure_bound_and_verdict() -> None:
    line = Line("calm", "tasks at home", ">= 0.7", (0.71, 0.65), (True, False))
    head, rule, row = verdicts([line]).splitlines()
    assert len(head) == len(rule) == len(row)
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "calm", "tasks at home", ">= 0.7", "0.68", "0.65", "MISSED in 1 of 2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("figure", "shown"), [(0.7124, "0.712"), (51.0, "51"), (2020.4, "2020"), (math.inf, "inf")]
)
def test_a_figure_has_three_digits_or_all_before_the_point(figure: float, shown: str) -> None:
    *_, row = verdicts([Line("a", "b", "<= 1", (figure,), (False,))]).splitlines()
    assert [cell.strip() for cell in row.split("|")[4:6]] == [shown, shown]


def test_columns_line_up() -> None:
    assert table([("a", "b"), ("long", "x")]).splitlines() == [
        "| a    | b |",
        "|------|---|",
        "| long | x |",
    ]
