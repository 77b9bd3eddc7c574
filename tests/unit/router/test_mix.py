"""How long tasks take of which only the names are known."""

import pytest

from router.load import Load
from router.mix import Mix, Timed
from tests.unit.router.live import worker
from tradewind.crew import MOST_S, muster
from tradewind.policy.defaults import MAX_MEMORY, SERVICE_S
from tradewind.task import Timing


def mix(**seconds: float) -> Mix:
    return Mix(0, seconds)


def told(one: Mix, now_ms: float, waiting: float = 0.0, **timings: tuple[float, float]) -> None:
    """Heartbeats of four slots: of each name its seconds, and how many began lately."""
    begun = sum(lately for _, lately in timings.values())
    mean_s = sum(mean_s * lately for mean_s, lately in timings.values()) / (begun or 1)
    known = {name: Timing(*timing) for name, timing in timings.items()}
    one.mustered(now_ms, muster([worker(service_s=mean_s, timings=known)]), waiting)


def test_nothing_is_known_at_first() -> None:
    assert mix().service_s == 0.0


def test_an_idle_region_takes_what_its_workers_tell() -> None:
    one = mix()
    one.mustered(0, muster([worker(service_s=0.25, timings={"a": Timing(0.25, 0.0)})]), 0)
    assert one.service_s == 0.25


def test_a_name_that_nobody_has_timed_takes_a_second() -> None:
    one = mix()
    told(one, 0, quick=(0.001, 1.0))
    one.sent({"slow": 64})
    assert one.service_s == pytest.approx(SERVICE_S, rel=0.02)


def test_a_name_that_another_region_has_timed_takes_what_it_takes_there() -> None:
    one = mix(slow=3.0)
    told(one, 0, quick=(0.001, 1.0))
    one.sent({"slow": 64})
    assert one.service_s == pytest.approx(3.0, rel=0.02)


def test_but_the_region_itself_knows_best() -> None:
    one = mix(slow=3.0)
    told(one, 0, slow=(2.0, 1.0))
    one.sent({"slow": 64})
    assert one.service_s == 2.0


def test_with_workers_that_do_not_tell_names_a_task_takes_what_theirs_take() -> None:
    one = mix()
    one.mustered(0, muster([worker(service_s=0.5)]), 0)
    one.sent({"slow": 64})
    assert one.service_s == 0.5


def test_tasks_that_others_send_count_by_what_began_beyond_ours() -> None:
    one = mix()
    one.sent({"slow": 10})
    told(one, 0, quick=(0.001, 990.0), slow=(3.0, 10.0))
    assert one.service_s == pytest.approx((10 * 3.0 + 990 * 0.001) / 1_000)


def test_of_old_heartbeats_what_we_sent_is_not_taken_for_others() -> None:
    one = mix(slow=3.0)
    one.sent({"quick": 1_000})
    known = {"quick": Timing(0.001, 1_000.0)}
    beat = muster([worker(service_s=0.001, timings=known)])
    one.mustered(5_000, beat, 0, age_ms=5_000)
    one.sent({"slow": 30})
    one.reckon(6_000, 30)
    assert one.service_s == pytest.approx(3.0 * 30 / 38, rel=0.05)


def test_our_own_are_not_counted_twice() -> None:
    one = mix()
    one.sent({"slow": 600})
    told(one, 0, quick=(0.001, 10.0), slow=(3.0, 33.0))
    assert one.service_s == pytest.approx((600 * 3.0 + 10 * 0.001) / 610)


def test_what_was_sent_fades_in_ten_seconds_where_nothing_waits() -> None:
    one = mix(slow=3.0, quick=0.001)
    one.sent({"slow": 100})
    one.reckon(100_000, 0)
    one.sent({"quick": 100})
    assert one.service_s < 0.002


def test_but_not_where_it_waits_for_minutes() -> None:
    one = mix(slow=3.0)
    told(one, 0, quick=(0.001, 1.0))
    one.sent({"slow": 600})
    one.reckon(100_000, 520)
    one.sent({"quick": 100})
    assert one.service_s == pytest.approx(520 * 3.0 / 628, rel=0.03)


def test_a_long_queue_counts_as_what_it_is_whatever_was_done_before() -> None:
    one = mix(slow=3.0)
    one.sent({"quick": 5_000})
    told(one, 1_000, quick=(0.001, 5_000.0))
    one.sent({"slow": 64})
    assert one.service_s == pytest.approx(3.0 * 64 / 72, rel=0.01)
    told(one, 2_000, 60, quick=(0.001, 4_090.0), slow=(3.0, 4.0))
    assert one.service_s == pytest.approx(3.0 * 60 / 68, rel=0.02)


def test_what_waits_is_what_came_last() -> None:
    one = mix(slow=3.0)
    told(one, 0, quick=(0.001, 1.0))
    one.sent({"slow": 60})
    one.reckon(1_000, 60)
    one.sent({"quick": 600})
    one.reckon(2_000, 600)
    assert one.service_s < 0.01
    one.reckon(3_000, 660)
    assert one.service_s == pytest.approx(3.0 * 60 / 660, rel=0.1)


def test_others_tasks_wait_among_ours() -> None:
    one = mix()
    told(one, 0, quick=(0.001, 0.0), slow=(3.0, 100.0))
    one.sent({"quick": 100})
    told(one, 10_000, 200, quick=(0.001, 37.0), slow=(3.0, 100.0))
    assert one.service_s == pytest.approx(1.5, rel=0.1)


def test_one_slow_task_makes_no_long_queue_of_a_short_one() -> None:
    one = mix(slow=3.0)
    told(one, 0, quick=(0.001, 1_000.0))
    one.sent({"slow": 1, "quick": 2})
    assert one.service_s < 3.0 / 10


def test_what_is_taken_back_does_not_count_and_nothing_counts_below_zero() -> None:
    one = mix(slow=3.0, quick=0.5)
    one.sent({"slow": 64, "quick": 2})
    one.sent({"slow": -64})
    assert one.service_s == pytest.approx(0.5)
    one.sent({"slow": -64, "never": -5})
    assert one.service_s == pytest.approx(0.5)


def test_callers_cannot_make_it_remember_names_without_end() -> None:
    one, timed = mix(), Timed()
    for nth in range(3 * MAX_MEMORY):
        one.sent({f"n{nth}": 1})
        timed.note(0, {f"n{nth}": Timing(1.0, 1.0)})
    assert one.service_s == SERVICE_S
    assert list(timed.seconds) == [f"n{nth}" for nth in range(2 * MAX_MEMORY, 3 * MAX_MEMORY)]
    assert len(one._own) == MAX_MEMORY  # pyright: ignore[reportPrivateUsage]


def test_a_name_that_is_told_of_without_a_time_is_not_timed() -> None:
    timed = Timed()
    timed.note(0, {"a": Timing(0.0, 3.0), "": Timing(1.0, 1.0)})
    assert timed.seconds == {}


def test_names_of_which_nobody_tells_any_more_are_forgotten() -> None:
    timed = Timed()
    timed.note(0, {"old": Timing(1.0, 1.0), "kept": Timing(1.0, 1.0)})
    timed.note(500_000, {"kept": Timing(2.0, 1.0)})
    assert timed.seconds == {"old": 1.0, "kept": 2.0}
    timed.note(600_000, {})
    assert timed.seconds == {"kept": 2.0}
    timed.note(600_001, {"new": Timing(1e308, 1.0)})
    assert timed.seconds == {"kept": 2.0, "new": MOST_S}
    timed.note(2_000_000, {})
    assert timed.seconds == {}


# --- what a region can do, and how fast its queue shrinks


def load(**seconds: float) -> Load:
    one = Load(64, 0, seconds)
    timings = {"q": Timing(0.001, 1e3)}
    beat = worker(slots=10, busy=0, rate=100.0, service_s=0.001, handlers=("*",), timings=timings)
    one.mustered(1_000, 0, [beat])
    return one


def test_completions_count_by_the_work_that_they_were() -> None:
    one = load(slow=3.0)
    assert (one.at(1_000).rate, one.at(1_000).service_s) == (100.0, 0.001)
    one.sent(1_000, {"slow": 9_000})
    now = one.at(1_000)
    assert now.service_s == pytest.approx(3.0, rel=0.01)
    assert now.rate * now.service_s == pytest.approx(100.0 * 0.001)


def test_a_queue_of_long_tasks_shrinks_no_faster_than_they_are_done() -> None:
    one = load(slow=3.0)
    one.sent(1_000, {"slow": 600})
    one.answered(1_000, 0, 600, {1: 0})
    one.mustered(2_000, 0, [worker(slots=10, busy=10, timings={"slow": Timing(3.0, 10.0)})])
    before, after = one.at(2_000), one.at(32_000)
    assert before.depth - after.depth == pytest.approx(100, abs=2)


def test_tasks_on_their_way_wait_there_already() -> None:
    one = load(slow=3.0)
    one.sent(1_000, {"slow": 600})
    one.sent(1_500, {"q": 1})
    assert one.at(1_500).service_s == pytest.approx(3.0 * 590 / 610, rel=0.1)
    one.sent(1_600, {"slow": -600})
    one.sent(2_000, {"q": 1})
    assert one.at(2_000).service_s < 0.01
