"""Loads and faults are the same for the same seed, and never more than a place can bear."""

from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from tests.chaos.faults import EFFECTS, FIRST_S, REST_S, Fault, Strike, strikes
from tests.chaos.load_plan import Kind, operations
from tests.chaos.mutants import digest
from tests.chaos.nemesis import possible
from tests.chaos.place import REGIONS

LENGTH_S = 470.0
AT_REDIS = {
    *("kill primary", "pause primary", "kill replica", "pause replica"),
    *("failover", "switch", "reshard"),
}
LINKS = {"silent link", "reset link", "lost answers"}
STATES = {"cordon", "drain", "evacuate"}


@pytest.fixture(params=range(1, 11))
def drawn(request: pytest.FixtureRequest) -> list[Strike]:
    return strikes(request.param, LENGTH_S, possible())


def test_the_same_seed_draws_the_same_run() -> None:
    assert strikes(7, LENGTH_S, possible()) == strikes(7, LENGTH_S, possible())
    assert operations(7, 60, 10, list(REGIONS), 2) == operations(7, 60, 10, list(REGIONS), 2)


def test_faults_begin_when_the_load_runs_and_are_over_in_time(drawn: list[Strike]) -> None:
    assert all(FIRST_S <= one.at_s <= one.until_s < LENGTH_S for one in drawn)
    assert all(
        EFFECTS[one.fault].lasts_s[0] <= one.lasts_s <= EFFECTS[one.fault].lasts_s[1]
        for one in drawn
    )


def test_no_redis_is_struck_again_before_its_replicas_have_caught_up(drawn: list[Strike]) -> None:
    struck = [one for one in drawn if one.fault in AT_REDIS]
    for before, after in combinations(struck, 2):
        assert before.region != after.region or after.at_s >= before.until_s + REST_S


def test_one_region_at_a_time_is_told_to_stop(drawn: list[Strike]) -> None:
    told = [one for one in drawn if one.fault in STATES]
    assert all(b.at_s >= a.until_s + REST_S for a, b in combinations(told, 2))


def test_no_end_of_a_fault_mends_the_links_of_another(drawn: list[Strike]) -> None:
    spoilt = [one for one in drawn if one.fault in LINKS]
    for before, after in combinations(spoilt, 2):
        assert before.region != after.region or after.at_s >= before.until_s


def test_ten_seeds_strike_with_every_fault_in_every_region_where_it_can_be() -> None:
    drawn = [one for seed in range(1, 11) for one in strikes(seed, LENGTH_S, possible())]
    wanted = {(region, fault) for region, faults in possible().items() for fault in faults}
    assert {(one.region, one.fault) for one in drawn} == wanted
    assert {one.fault for one in drawn} == set(Fault)


def test_a_load_has_every_kind_of_task_and_some_are_sent_twice() -> None:
    load = operations(1, LENGTH_S, 12.0, list(REGIONS), 2)
    counts = Counter(one.kind for one in load)
    assert counts.keys() == set(Kind)
    assert min(counts.values()) > 100
    assert all((one.again_s is not None) is (one.kind in {"keyed", "unique"}) for one in load)


def test_a_digest_of_the_code_knows_the_code_and_not_where_it_lies(tmp_path: Path) -> None:
    trees = [tmp_path / name for name in ("one", "two")]
    for tree in trees:
        (tree / "worker").mkdir(parents=True)
        (tree / "worker" / "beat.py").write_text("BEAT_S = 1\n")
        (tree / "worker" / "notes.txt").write_text(tree.name)
    assert digest(trees[0]) == digest(trees[1])
    (trees[1] / "worker" / "beat.py").write_text("BEAT_S = 2\n")
    assert digest(trees[0]) != digest(trees[1])
