import asyncio
import math

import pytest

from tradewind.clock import ManualClock
from tradewind.errors import StoreMoving, StoreUnavailable
from tradewind.fleet import Fleet, QueuePolicy
from tradewind.handlers import App
from worker.line import Line
from worker.pool import Pace, Pool, new_worker_id
from worker.reach import Reach
from worker.timers import Timers
from worker.upkeep import longest_lease_ms, share_of


def test_workers_share_the_partitions_without_overlap_or_gap() -> None:
    workers = ["a", "b", "c"]
    shares = [share_of(worker, workers, 64) for worker in workers]
    assert sorted(p for share in shares for p in share) == list(range(64))
    assert all(share for share in shares)


def test_a_worker_that_goes_gives_up_only_its_own_share() -> None:
    before = share_of("a", ["a", "b", "c"], 64)
    after = share_of("a", ["a", "b"], 64)
    assert set(before) <= set(after)


def test_a_worker_counts_itself_before_its_first_heartbeat_is_seen() -> None:
    assert share_of("me", [], 4) == [0, 1, 2, 3]


def test_a_partition_is_in_reach_from_its_first_answer_to_the_next_failure() -> None:
    clock = ManualClock()
    reach = Reach(clock)
    seen = [reach.for_ms(0)]
    reach.reached((0,))
    clock.advance(5)
    reach.reached((0,))
    clock.advance(5)
    seen.append(reach.for_ms(0))
    reach.failed(StoreUnavailable("eu-west", "connection lost", sent=False))
    seen.append(reach.for_ms(0))
    clock.advance(3)
    assert (seen, reach.broken_for_ms()) == ([0.0, 10.0, 0.0], 3.0)


def test_a_partition_that_moves_is_out_of_reach_and_no_other_is() -> None:
    clock = ManualClock()
    reach = Reach(clock)
    reach.reached((0, 1))
    clock.advance(5)
    reach.failed(StoreMoving("eu-west", 1))
    assert (reach.for_ms(0), reach.for_ms(1), reach.broken_for_ms()) == (5.0, 0.0, math.inf)


def test_the_longest_lease_of_the_file_rules_the_reaper() -> None:
    queues = {"a": QueuePolicy(lease_ms=5_000), "b": QueuePolicy(lease_ms=60_000)}
    assert longest_lease_ms(Fleet(regions={}, queues=queues)) == 60_000


def test_hints_go_first_and_every_partition_has_its_turn() -> None:
    line = Line()
    for partition in (5, 6):
        line.has_more(partition, 1)
    line.hinted(1)
    line.hinted(6)
    turns = [line.choose(2, room=9)]
    line.has_more(1, 1)
    turns += [line.choose(1, room=9), line.choose(9, room=9), line.choose(1, room=9)]
    assert turns == [[1, 6], [5], [1], []]


def test_no_more_partitions_are_asked_than_fill_the_room() -> None:
    line = Line()
    for partition, left in ((1, 50), (2, 5_000), (3, 5_000), (4, 5_000)):
        line.has_more(partition, left)
    assert line.choose(4, room=256) == [1, 2, 3], "50, and a claim of 128 at most each"
    line.hinted(2)
    assert line.choose(4, room=1) == [2, 4], "a hint may mean no task at all"
    assert not line


def test_work_for_others_is_left_alone_for_a_second() -> None:
    line = Line()
    line.chill(1, now_ms=0)
    assert [line.cold(now_ms=at) for at in (999, 1000)] == [{1}, set()]


async def test_the_earliest_timer_of_a_partition_fires_once() -> None:
    fired: list[int] = []
    both = asyncio.Event()

    def fire(partition: int) -> None:
        fired.append(partition)
        if len(fired) == 2:
            both.set()

    timers = Timers(fire)
    timers.arm(1, 60_000)
    timers.arm(1, 1)
    timers.arm(1, 50)
    timers.arm(2, 5)
    timers.arm(3, -1)
    await both.wait()
    timers.arm(4, 0)
    timers.stop()
    await asyncio.sleep(0)
    assert fired == [1, 2]


def test_the_heartbeat_tells_rate_and_service_time() -> None:
    clock = ManualClock()
    pool = Pool("w", "eu", ("default",), 4, Fleet(regions={}), App(), "1", 0)
    pace = Pace(pool, clock)
    for _ in range(20):
        clock.advance(100)
        pace.ended([("a", 0.5)])
    pace.busy = 3
    pace.depths[7] = (5, 99)
    beat = pace.beat()
    assert (beat.slots, beat.busy, beat.service_s, beat.depths) == (4, 3, 0.5, {7: (5, 99)})
    assert beat.rate == pytest.approx(1.82, abs=0.05)  # 2 s of 10 a second, averaged over 10 s
    clock.advance(60_000)
    assert pace.beat().rate < 0.01


def test_worker_ids_differ_within_one_process() -> None:
    assert new_worker_id("eu") != new_worker_id("eu")
