import pytest

from router.signs import PeakRtt, Signs, SuccessRate
from tests.unit.router.live import worker
from tradewind.fleet import Fleet, Health
from tradewind.task import Timing

FLEET = Fleet({}, health=Health(down_after=3, up_after=3, stale_after_ms=10_000))


def signs() -> Signs:
    return Signs("eu", FLEET, prior_rtt_ms=80.0, now_ms=0, draw=lambda: 0.5)


def test_a_slower_round_trip_counts_at_once_and_a_faster_one_with_time() -> None:
    rtt = PeakRtt(80.0)

    rtt.add(0, 10.0)
    assert rtt.ms == 10.0
    rtt.add(1_000, 50.0)
    assert rtt.ms == 50.0
    rtt.add(1_001, 10.0)
    assert rtt.ms == pytest.approx(50.0, abs=0.01)
    rtt.add(11_001, 10.0)
    assert rtt.ms == pytest.approx(10 + 40 / 2.718, rel=0.01)


def test_until_measured_the_prior_holds() -> None:
    assert signs().view(0).rtt_ms == 80.0


def test_the_success_rate_forgets() -> None:
    rate = SuccessRate()
    for _ in range(90):
        rate.add(0, ok=False)

    assert rate.at(0) == pytest.approx(0.1)
    assert rate.at(100_000) > 0.99


def test_one_bad_call_at_first_makes_no_rate() -> None:
    rate = SuccessRate()
    rate.add(0, ok=False)
    assert rate.at(0) > 0.9


def test_what_was_served_a_moment_ago_is_served_through_a_rolling_deploy() -> None:
    region = signs()
    region.mustered(1_000, [worker(), worker("x", queues=("mail",), handlers=("b",))])
    region.mustered(2_000, [worker()])
    assert region.view(2_000).served == {"default": frozenset("a"), "mail": frozenset("b")}
    region.mustered(16_001, [worker()])
    assert region.view(16_001).served == {"default": frozenset("a")}


def test_the_live_share_is_of_the_most_slots_of_five_to_ten_minutes() -> None:
    region = signs()
    region.mustered(1_000, [worker(slots=30)])
    region.mustered(2_000, [worker(slots=10)])
    assert region.view(2_000).live_share == pytest.approx(1 / 3)
    region.mustered(301_000, [worker(slots=10)])
    assert region.view(301_000).live_share == pytest.approx(1 / 3)
    region.mustered(601_000, [worker(slots=10)])
    assert region.view(601_000).live_share == 1.0


DEGRADED: dict[str, tuple[int, str]] = {
    "71 slots of a hundred": (71, "HEALTHY"),
    "70 of a hundred": (70, "DEGRADED"),
    "none of a hundred": (0, "DEGRADED"),
}


@pytest.mark.parametrize(("slots", "health"), DEGRADED.values(), ids=DEGRADED)
def test_a_region_with_less_than_71_per_cent_of_its_slots_is_degraded(
    slots: int, health: str
) -> None:
    region = signs()
    region.probed(900, 1.0)
    region.mustered(1_000, [worker(slots=100)])
    region.mustered(2_000, [worker(slots=slots)] if slots else [])
    assert region.view(2_000).health == health


def test_one_that_never_had_a_worker_is_not_degraded_for_that() -> None:
    region = signs()
    region.probed(900, 1.0)
    region.mustered(1_000, [])
    assert region.view(1_000).health == "HEALTHY"


def test_one_whose_calls_have_become_slow_is_degraded() -> None:
    region = signs()
    for second in range(90):
        for nth in range(5):
            took_ms = 90.0 if second < 70 else 360.0
            region.answered(second * 1_000 + nth, {}, {}, took_ms)
        region.probed(second * 1_000 + 900, 80.0)
    assert region.view(90_000).health == "DEGRADED"
    assert region.standing(90_000).health == "DEGRADED"


def test_one_that_stays_in_is_degraded_instead_of_down_by_soft_evidence_only() -> None:
    region = signs()
    for nth in range(25):
        region.called(nth, ok=True)
        region.called(nth, ok=False)
    assert region.view(30).health == "DOWN"
    assert region.view(30, stays=True).health == "DEGRADED"
    for nth in range(3):
        region.probed(nth, None)
    assert region.view(30, stays=True).health == "DOWN"


def test_unserved_counts_from_the_last_live_worker() -> None:
    region = signs()
    assert region.view(4_000).unserved_for_s == 4.0
    region.mustered(5_000, [worker()])
    assert region.view(9_000).unserved_for_s == 0.0
    region.mustered(10_000, [])
    assert region.view(12_000).unserved_for_s == 7.0


def test_a_full_region_is_full_for_five_seconds() -> None:
    region = signs()
    region.filled(1_000)

    assert region.view(5_999).full
    assert not region.view(6_000).full


def test_tasks_under_way_count_until_they_are_answered_and_then_as_stored() -> None:
    region = signs()
    region.sent(0, {"a": 3})
    assert region.view(0).in_flight == 3
    region.answered(10, {"a": 3}, {4: 0})
    assert (region.view(10).in_flight, region.view(10).depth) == (0, 3)
    region.sent(10, {"a": 2})
    region.answered(20, {"a": 2}, {})
    assert (region.view(20).in_flight, region.view(20).depth) == (0, 3)


def test_tasks_of_a_call_that_failed_are_not_there() -> None:
    region = signs()
    timings = {"a": Timing(0.5, 10.0)}
    region.mustered(1_000, [worker(service_s=0.5, handlers=("a", "new"), timings=timings)])
    region.sent(1_000, {"new": 50})
    assert region.view(1_000).service_s > 0.9
    region.answered(1_100, {"new": 50}, {})
    assert region.view(1_100).service_s == pytest.approx(0.5)


def test_another_origin_sees_its_own_round_trip() -> None:
    assert signs().view(0, rtt_ms=214.0).rtt_ms == 214.0
