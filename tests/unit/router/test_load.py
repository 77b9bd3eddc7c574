import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from router.load import Load
from tests.unit.router.live import worker
from tradewind.task import LiveWorker, Timing

PARTITIONS = 64


def load(*workers: LiveWorker, at_ms: float = 1_000, rtt_ms: float = 0) -> Load:
    one = Load(PARTITIONS, 0)
    if workers:
        one.mustered(at_ms, rtt_ms, workers)
    return one


def excess(one: Load, at_ms: float) -> float:
    now = one.at(at_ms)
    return now.depth - now.free_slots


def test_a_region_nobody_told_of_is_as_old_as_the_looking_for_it() -> None:
    now = load().at(7_000)

    assert (now.depth, now.free_slots, now.age_ms) == (0, 0, 7_000)


def test_heartbeats_alone_say_free_slots_and_what_was_left_behind() -> None:
    now = load(worker(busy=1)).at(1_000)
    assert (now.depth, now.free_slots) == pytest.approx((0, 3), abs=0.01)

    now = load(worker(busy=4, depths={3: (9, 1)})).at(1_000)
    assert (now.depth, now.free_slots) == pytest.approx((9, 0), abs=0.01)


def test_what_waits_beside_free_slots_waits_for_others() -> None:
    now = load(worker(busy=1, depths={3: (9, 1)})).at(1_000)

    assert (now.depth, now.free_slots) == pytest.approx((9, 3), abs=0.01)


def test_the_age_is_that_of_the_heartbeats_and_the_way_back_from_them() -> None:
    assert load(worker(age_ms=400), rtt_ms=200).at(1_000).age_ms == pytest.approx(500)
    assert load(worker(age_ms=400), rtt_ms=200).at(1_300).age_ms == pytest.approx(800)


def test_answers_make_a_number_younger_than_the_heartbeats() -> None:
    one = load(worker(rate=40.0, busy=4, depths={1: (20, 1)}))
    for ms in range(1_000, 9_000, 10):
        one.answered(ms, 0, 1, {ms % PARTITIONS: 0 if ms % 30 else 1})

    assert one.at(9_000).age_ms < 3_000


def test_heartbeats_that_say_nothing_new_are_not_news() -> None:
    one = load(worker(busy=1))
    one.mustered(3_000, 0, [worker(busy=3, age_ms=2_000)])

    assert excess(one, 3_000) == pytest.approx(-3, abs=0.01)
    assert one.at(3_000).age_ms == 2_000


def test_an_own_task_counts_once_from_its_answer_on() -> None:
    one = load(worker(busy=0, rate=0.0))
    one.answered(1_100, 0, 3, {7: 0})
    assert excess(one, 1_100) == pytest.approx(-1, abs=0.01)

    one.mustered(1_200, 0, [worker(busy=0, age_ms=150, rate=0.0)])  # written before it
    assert excess(one, 1_200) == pytest.approx(-1, abs=0.6)
    one.mustered(1_300, 0, [worker(busy=3, rate=0.0)])  # and after it
    assert excess(one, 1_300) == pytest.approx(-1, abs=0.6)


def test_an_idle_region_seems_idle_however_much_is_sent_to_it() -> None:
    one, now_ms = Load(PARTITIONS, 0), 0
    for second in range(1, 20):
        now_ms = second * 1_000
        one.mustered(now_ms, 0, [worker(slots=20, busy=10, rate=20.0)])
        for nth in range(20):  # each finds its partition empty
            one.answered(now_ms + 45 * nth, 0, 1, {nth: 0})

    assert excess(one, now_ms + 900) == pytest.approx(-10, abs=5)


def test_a_backlog_that_others_made_shows_in_what_answers_find() -> None:
    one = load(worker(slots=20, busy=20, rate=40.0))
    chance = random.Random(1)
    for nth in range(400):  # each partition holds 3 tasks on average: 192 wait
        one.answered(1_000 + 50 * nth, 0, 1, {nth % PARTITIONS: chance.choice((2, 3, 4))})

    assert excess(one, 21_000) == pytest.approx(192, rel=0.15)


def test_with_every_slot_taken_heartbeats_tell_only_the_least_there_is() -> None:
    one = load(worker(busy=4, rate=8.0))
    for nth in range(50):
        one.answered(1_000 + nth, 0, 1, {nth: 2})
    known = excess(one, 1_050)
    one.mustered(1_100, 0, [worker(busy=4, depths={1: (3, 1)}, rate=8.0)])

    assert known > 50
    assert excess(one, 1_100) == pytest.approx(known, rel=0.05)


def test_a_burst_drains_no_faster_than_the_region_works() -> None:
    one = load(worker(slots=4, busy=4, rate=8.0, service_s=0.5))
    one.answered(1_000, 0, 1_000, {1: 0})

    assert excess(one, 11_000) == pytest.approx(excess(one, 1_000) - 80, abs=1)


def test_a_region_without_workers_drains_not_at_all() -> None:
    one = load()
    one.answered(1_000, 0, 50, {1: 0})

    assert excess(one, 60_000) == excess(one, 1_000) == pytest.approx(50, abs=1)


def simulated(seed: int, others: float) -> Sequence[float]:
    """Errors of the estimate where arrivals and ends are chance, 20 of them a second our own."""
    chance, one = random.Random(seed), Load(PARTITIONS, 0)
    tasks, errors, rate = 20, list[float](), 0.0
    for ms in range(0, 60_000, 5):
        if chance.random() < others / 200:
            tasks += 1
        if chance.random() < 0.1:
            ready = sum(chance.randrange(PARTITIONS) == 0 for _ in range(max(0, tasks - 20)))
            one.answered(ms, 0, 1, {0: ready})
            tasks += 1
        ended = chance.random() < min(20, tasks) / 100  # of 0.5 s on average
        tasks, rate = tasks - ended, rate + (200 * ended - rate) / 2_000
        if ms % 1_000 == 0:
            one.mustered(ms, 0, [worker(slots=20, busy=min(20, tasks), rate=rate)])
        if ms > 20_000 and ms % 250 == 0:
            errors.append(excess(one, ms) - (tasks - 20))
    return errors


@pytest.mark.parametrize("others", [4.0, 12.0, 18.0])
def test_it_is_right_on_average_and_within_some_tasks(others: float) -> None:
    errors = [error for seed in range(3) for error in simulated(seed, others)]

    mean = sum(errors) / len(errors)
    assert abs(mean) < 3
    assert sum((error - mean) ** 2 for error in errors) / len(errors) < 8**2


def told(ready: int, looked_ms: int) -> LiveWorker:
    """A busy worker that saw `ready` tasks, in looks that are `looked_ms` old on average."""
    depths = {1: (ready, 100_000), 2: (0, 100_000 - 2 * looked_ms)}
    return worker(busy=4, rate=20.0, depths=depths)


def test_a_long_queue_to_which_we_do_not_send_is_seen_to_shrink() -> None:
    one = load(told(1_000, 2_000))
    for now_ms, ready in ((10_000, 800), (20_000, 600), (40_000, 200)):
        one.mustered(now_ms, 0, [told(ready, 2_000)])
        assert excess(one, now_ms) == pytest.approx(ready, abs=100)


def test_but_what_an_answer_told_of_since_the_looks_stays() -> None:
    one = load(told(20, 2_000))
    for nth in range(300):
        one.answered(2_000 + nth, 0, 1, {nth % PARTITIONS: 16})
    before = excess(one, 2_300)
    assert before > 500
    one.mustered(2_400, 0, [told(20, 2_000)])
    assert excess(one, 2_400) > 0.95 * before


# --- whatever is told, it stays a number, and the truth wins

ANY = st.floats() | st.sampled_from([0.0, 5e-324, 1e-6, 1e155, 1e308, -1e308])
REPORTS = st.lists(st.tuples(ANY, ANY, ANY, ANY, ANY, st.sampled_from([0, 1, 10])), max_size=4)


def told_anything(one: Load, now_ms: float, *told: float) -> None:
    rate, service_s, mean_s, lately, ready, busy = told
    timings = {"a": Timing(mean_s, lately), "b": Timing(lately, mean_s)}
    facts: dict[str, Any] = {
        "rate": rate,
        "service_s": service_s,
        "timings": timings,
        "busy": busy,
        "slots": 10,
    }
    beats = [worker("liar", **facts, depths={1: (ready, int(now_ms))}), worker(busy=4)]
    one.mustered(now_ms, 1.0, beats)
    one.sent(now_ms, {"a": 2, "b": 1})
    one.answered(now_ms + 1, 1.0, 2, {3: 1})


def is_sane(one: Load, now_ms: float) -> bool:
    now = one.at(now_ms)
    return all(abs(number) < 1e18 for number in now) and round(now.depth + now.free_slots) >= 0


@settings(max_examples=150, deadline=None)
@example([(1.0, 0.1, 1.0, 1.0, float("nan"), 10)])
@example([(float("nan"), 0.1, 1.0, 1.0, 0.0, 10)])
@example([(1.0, 1e308, 5e-324, 1e308, 1e300, 10)])
@example([(-1e308, 0.1, 1.0, 1.0, 0.0, 10)])
@given(REPORTS)
def test_whatever_workers_tell_it_is_finite_and_heals(told: Sequence[tuple[float, ...]]) -> None:
    one, now_ms = Load(PARTITIONS, 0), 1_000.0
    for report in told:
        told_anything(one, now_ms, *report)
        assert is_sane(one, now_ms + 500)
        now_ms += 1_000
    good = worker(slots=10, busy=4, rate=1.0, service_s=0.1, timings={"a": Timing(0.1, 1.0)})
    for _ in range(60):
        one.mustered(now_ms, 1.0, [good])
        now_ms += 1_000
    now = one.at(now_ms)
    assert (now.depth, now.free_slots) == pytest.approx((0, 6), abs=0.1)
    assert now.service_s < 1.0
