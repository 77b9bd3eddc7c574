import pytest

from router.signs import BAD_CALLS, Depth, PeakRtt, Signs, SuccessRate, Verdict, muster
from tradewind.fleet import Health
from tradewind.limits import WORKER_GONE_MS
from tradewind.task import Heartbeat, LiveWorker

RULES = Health(down_after=3, up_after=3, stale_after_ms=10_000)


def worker(name: str = "w", *, age_ms: int = 0, **changes: object) -> LiveWorker:
    facts: dict[str, object] = {
        "worker_id": name,
        "region": "eu",
        "queues": ("default",),
        "handlers": ("a",),
        "slots": 4,
        "busy": 1,
        "rate": 2.0,
        "service_s": 0.5,
        "started_ms": 0,
        "version": "1",
    }
    return LiveWorker(Heartbeat(**(facts | changes)), age_ms)  # type: ignore[arg-type]


def signs() -> Signs:
    return Signs("eu", RULES, prior_rtt_ms=80.0, now_ms=0)


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
    for _ in range(9):
        rate.add(0, ok=False)

    assert rate.at(0) == pytest.approx(0.1)
    assert rate.at(100_000) > 0.99


def verdict(*events: str) -> str:
    """Each event is one second after the one before."""
    one = Verdict(RULES)
    for second, event in enumerate(events):
        match event:
            case "probe":
                one.probed(second * 1_000, ok=True)
            case "no probe":
                one.probed(second * 1_000, ok=False)
            case "call":
                one.called(second * 1_000, ok=True)
            case _:
                one.called(second * 1_000, ok=False)
    return one.at(len(events) * 1_000)


VERDICTS: dict[str, tuple[list[str], str]] = {
    "nothing seen": ([], "UNKNOWN"),
    "one good probe": (["probe"], "HEALTHY"),
    "one good call": (["call"], "HEALTHY"),
    "one bad probe at first": (["no probe"], "UNKNOWN"),
    "one bad probe after a good one": (["probe", "no probe"], "DEGRADED"),
    "three bad probes": (["no probe"] * 3, "DOWN"),
    "two bad probes and a good one": (["no probe", "no probe", "probe", "no probe"], "DEGRADED"),
    "four bad calls": (["probe"] + ["no call"] * 4, "DEGRADED"),
    "five bad calls": (["probe"] + ["no call"] * BAD_CALLS, "DOWN"),
    "bad calls with a good one between": (
        ["probe", *["no call"] * 4, "call", *["no call"] * 4],
        "DEGRADED",
    ),
    "two good probes after down": (["no probe"] * 3 + ["probe"] * 2, "DOWN"),
    "three good probes after down": (["no probe"] * 3 + ["probe"] * 3, "HEALTHY"),
    "three good probes after bad calls": (["no call"] * 5 + ["probe"] * 3, "HEALTHY"),
    "a bad probe starts the count anew": (
        ["no probe"] * 3 + ["probe", "probe", "no probe", "probe", "probe"],
        "DOWN",
    ),
    "a good call does not open what is down": (["no probe"] * 3 + ["call"] * 9, "DOWN"),
}


@pytest.mark.parametrize(("events", "expected"), VERDICTS.values(), ids=VERDICTS)
def test_the_verdict_after(events: list[str], expected: str) -> None:
    assert verdict(*events) == expected


def test_silence_is_no_health() -> None:
    one = Verdict(RULES)
    one.probed(0, ok=True)

    assert one.at(10_000) == "HEALTHY"
    assert one.at(10_001) == "DEGRADED"


def test_depth_is_the_sum_of_the_newest_number_of_each_partition() -> None:
    depth = Depth()
    depth.note(0, {1: 5, 2: 7})
    depth.note(1_000, {1: 2})

    assert depth.total == 9


def test_a_heartbeat_is_older_than_the_enqueue_after_it() -> None:
    depth = Depth()
    depth.note(1_000, {1: 5})
    depth.note_heartbeats(1_100, [worker(age_ms=500, depths={1: (3, 77), 2: (1, 77)})])

    assert depth.total == 6


def test_a_newer_heartbeat_replaces_and_an_unchanged_one_says_nothing_new() -> None:
    depth = Depth()
    depth.note_heartbeats(1_000, [worker(depths={1: (3, 77)})])
    assert depth.total == 3
    depth.note(2_000, {1: 8})
    depth.note_heartbeats(3_000, [worker(depths={1: (3, 77)})])
    assert depth.total == 8
    depth.note_heartbeats(4_000, [worker(depths={1: (0, 78)})])
    assert depth.total == 0


def test_of_several_workers_the_latest_look_counts() -> None:
    depth = Depth()
    depth.note_heartbeats(0, [worker(depths={1: (9, 70)}), worker("x", depths={1: (2, 71)})])

    assert depth.total == 2


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


def test_tasks_under_way_count_until_they_are_answered() -> None:
    region = signs()
    region.sent(3)
    assert region.view(0).in_flight == 3
    region.answered(10, 3, {4: 3})
    assert (region.view(10).in_flight, region.view(10).depth) == (0, 3)
    assert region.view(2_010).age_s == 2.0


def test_another_origin_sees_its_own_round_trip() -> None:
    assert signs().view(0, rtt_ms=214.0).rtt_ms == 214.0
