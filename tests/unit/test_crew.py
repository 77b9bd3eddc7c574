"""The workers of a region, added up."""

from tests.unit.router.live import worker
from tradewind.crew import NAMELESS, muster
from tradewind.limits import WORKER_GONE_MS
from tradewind.task import Timing
from tradewind.view import RegionView


def test_workers_add_up_and_those_without_a_sign_of_life_do_not_count() -> None:
    crew = muster(
        [
            worker(service_s=1.0),
            worker("x", busy=4, queues=("default", "mail"), handlers=("b",), service_s=0.0),
            worker("gone", age_ms=WORKER_GONE_MS),
        ]
    )

    assert (crew.slots, crew.free_slots, crew.rate, crew.service_s) == (8, 3, 4.0, 1.0)
    assert crew.served == {"default": frozenset("ab"), "mail": frozenset("b")}


def test_of_several_workers_the_latest_look_at_a_partition_counts() -> None:
    crew = muster([worker(depths={1: (9, 70)}), worker("x", depths={1: (2, 71), 2: (3, 5)})])

    assert crew.ready == 5


def test_the_age_of_heartbeats_is_their_mean_by_slots() -> None:
    assert muster([worker(age_ms=100, slots=30), worker("x", age_ms=500, slots=10)]).age_ms == 200


def test_how_long_a_name_takes_is_the_mean_by_slots_of_those_that_have_timed_it() -> None:
    crew = muster(
        [
            worker(slots=30, timings={"a": Timing(1.0, 20.0), "b": Timing(0.0, 4.0)}),
            worker("x", slots=10, timings={"a": Timing(3.0, 5.0)}),
            worker("y", slots=10, timings={"a": Timing(0.0, 1.0)}),
        ]
    )

    assert crew.timings == {"a": Timing(1.5, 26.0), "b": Timing(0.0, 4.0)}


def test_of_an_older_worker_all_that_it_completes_counts_as_of_one_name() -> None:
    crew = muster([worker(rate=2.0, service_s=0.5), worker("x", timings={"a": Timing(1.0, 3.0)})])

    assert crew.timings == {NAMELESS: Timing(0.5, 20.0), "a": Timing(1.0, 3.0)}


def test_a_region_looks_as_its_workers_describe_it() -> None:
    crew = muster(
        [
            worker("a", handlers=("only-a", "both"), depths={0: (9, 100), 1: (2, 50)}),
            worker("b", handlers=("only-b", "both"), depths={0: (3, 200)}),
        ]
    )

    assert crew.view("us", 80.0, full=False) == RegionView(
        "us",
        80.0,
        depth=5,
        slots=8,
        free_slots=6,
        rate=4.0,
        service_s=0.5,
        served={"default": frozenset({"only-a", "only-b", "both"})},
    )


def test_a_region_without_workers_serves_nothing() -> None:
    assert muster([]).view("us", 80.0, full=True) == RegionView("us", 80.0, full=True)
