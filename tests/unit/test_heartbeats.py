"""Heartbeats as they lie in a store."""

import json
from typing import Any

import pytest

from tradewind.crew import LEAST_S, MOST_RATE, MOST_S
from tradewind.limits import MAX_NAME_BYTES, MAX_TIMINGS, WORKER_GONE_MS
from tradewind.store.heartbeats import (
    MAX_REPORT_BYTES,
    MAX_SLOTS,
    Roll,
    UnreadableHeartbeat,
    packed,
    unpacked,
)
from tradewind.task import Heartbeat, LiveWorker, Timing

BEAT = Heartbeat(
    *("w1", "eu", ("mail",), ("send", "late"), 4, 1, 0.5, 0.1, 1_000, "0.1.0"),
    depths={3: (7, 1_700_000_000_000)},
    timings={"send": Timing(0.1, 5.0), "late": Timing(0.0, 1.0)},
)


def said(**changes: object) -> Heartbeat:
    report: dict[str, Any] = json.loads(packed(BEAT))
    return unpacked(json.dumps(report | changes).encode())


def test_it_is_read_as_it_was_sent() -> None:
    assert unpacked(packed(BEAT).encode()) == BEAT


def test_one_of_an_older_worker_tells_no_timings() -> None:
    report: dict[str, Any] = json.loads(packed(BEAT))
    del report["timings"]
    assert unpacked(json.dumps(report).encode()).timings == {}


def test_what_a_newer_worker_says_beside_is_passed_over() -> None:
    assert said(mood="good") == BEAT


NONSENSE: dict[str, object] = {
    "no table": [["send", 1.0, 1.0]],
    "nothing": None,
    "a name without a name": {"": [1.0, 1.0]},
    "a name that no task can have": {"x" * (MAX_NAME_BYTES + 1): [1.0, 1.0]},
    "a time below zero": {"send": [-1.0, 1.0]},
    "a time without end": {"send": [float("inf"), 1.0]},
    "a number below zero": {"send": [1.0, -1.0]},
    "no number": {"send": [1.0, float("nan")]},
    "a text": {"send": ["1", 1.0]},
    "too little": {"send": [1.0]},
    "too much": {"send": [1.0, 1.0, 1.0]},
    "a name that UTF-8 cannot spell": {"\ud800": [1.0, 1.0]},
}


@pytest.mark.parametrize("timings", NONSENSE.values(), ids=NONSENSE)
def test_timings_that_make_no_sense_are_left_out(timings: object) -> None:
    assert said(timings=timings).timings == {}


def test_no_more_timings_are_read_than_a_worker_tells() -> None:
    many = {f"n{nth}": [1.0, 1.0] for nth in range(MAX_TIMINGS + 10)}
    assert list(said(timings=many).timings) == list(many)[:MAX_TIMINGS]


# --- what no worker says

NAN, INF, HUGE = float("nan"), float("inf"), 10**400
_LONG = "x" * (MAX_NAME_BYTES + 1)
LIES: dict[str, object] = {
    "no JSON": b"xx",
    "no text": b"\xff\xfe",
    "no object": b"[]",
    "nothing": b"",
    "an empty object": b"{}",
    "a nest without end": b'{"a":' * 100_000,
    "more digits than Python reads": b'{"slots":1' + b"0" * 10_000 + b"}",
    "more than anybody says": packed(BEAT).encode() + b" " * MAX_REPORT_BYTES,
    "no time": {"service_s": None},
    "a time that is no number": {"service_s": NAN},
    "a time without end": {"service_s": INF},
    "a time below zero": {"service_s": -1.0},
    "a rate that is no number": {"rate": NAN},
    "a rate below zero": {"rate": -1e9},
    "a rate in words": {"rate": "1"},
    "slots in words": {"slots": "10"},
    "slots that are no whole number": {"slots": 1e308},
    "slots below zero": {"slots": -(10**9)},
    "more slots than there are": {"slots": MAX_SLOTS + 1},
    "more slots than a float holds": {"slots": HUGE},
    "yes for slots": {"slots": True},
    "busy without a number": {"busy": NAN},
    "busy below zero": {"busy": -1},
    "no depths": {"depths": None},
    "depths by name": {"depths": {"0": [1, 1]}},
    "a depth below zero": {"depths": [[0, -(10**9), 1]]},
    "a depth that is no number": {"depths": [[0, NAN, 1]]},
    "a depth without end": {"depths": [[0, HUGE, 1]]},
    "a look after the end of time": {"depths": [[0, 1, HUGE]]},
    "a partition that nobody has": {"depths": [[256, 1, 1]]},
    "a partition below zero": {"depths": [[-1, 1, 1]]},
    "too little of a depth": {"depths": [[0, 1]]},
    "depths of different lengths": {"depths": [[0, 1, 1], [1, 1]]},
    "depths in words": {"depths": ["abc"]},
    "depths that are one": {"depths": 3},
    "no for a depth": {"depths": [[0, False, 1]]},
    "a queue": {"queues": "default"},
    "queues in queues": {"queues": [["x"]]},
    "more queues than anybody has": {"queues": ["q"] * 10_001},
    "a queue that nobody can name": {"queues": [_LONG]},
    "handlers that are objects": {"handlers": [{}]},
    "handlers without a name": {"handlers": [None]},
    "an epoch in words": {"control": "x"},
    "an epoch without end": {"control": HUGE},
    "an id that UTF-8 cannot spell": {"worker_id": "\ud800"},
    "a handler that UTF-8 cannot spell": {"handlers": ["\ud800"]},
    "an id without end": {"worker_id": _LONG},
    "no id": {"worker_id": None},
    "a region that is none": {"region": 7},
    "a version that is none": {"version": []},
    "a start after the end of time": {"started_ms": HUGE},
    "a start before time": {"started_ms": -1},
}


def lie(lie: object) -> bytes:
    if isinstance(lie, bytes):
        return lie
    report: dict[str, Any] = json.loads(packed(BEAT))
    return json.dumps(report | lie).encode()  # type: ignore[operator]


def names(*entries: tuple[bytes, bytes], now_ms: int = 1_000_000) -> list[str]:
    return [live.heartbeat.worker_id for live in Roll("eu").read(entries, now_ms)]


@pytest.mark.parametrize("told", LIES.values(), ids=LIES)
def test_what_no_worker_says_is_left_out_and_those_beside_it_count(told: object) -> None:
    with pytest.raises(UnreadableHeartbeat):
        unpacked(lie(told))
    good = b"1000000 " + packed(BEAT).encode()
    bad = b"1000000 " + lie(told)
    assert names((b"a", bad), (b"w1", good), (b"z", bad)) == ["w1"]


@pytest.mark.parametrize("stamp", [b"", b"x", b"-", b"1" * 5_000, b"\xff", b"nan"])
def test_an_entry_without_a_time_is_left_out(stamp: bytes) -> None:
    good = b"1000000 " + packed(BEAT).encode()
    assert names((b"\xff", stamp), (b"a", stamp + b" {}"), (b"w1", good)) == ["w1"]


@pytest.mark.parametrize(
    ("told_s", "read_s"),
    [(1e308, MOST_S), (HUGE, MOST_S), (5e-324, LEAST_S), (0, 0.0), (2, 2.0), (0.25, 0.25)],
)
def test_times_are_within_what_a_worker_can_measure(told_s: float, read_s: float) -> None:
    beat = said(service_s=told_s, timings={"send": [told_s, 1.0]})
    assert (beat.service_s, beat.timings) == (read_s, {"send": Timing(read_s, 1.0)})


@pytest.mark.parametrize(("told", "read"), [(1e308, MOST_RATE), (HUGE, MOST_RATE), (0, 0), (7, 7)])
def test_rates_are_within_what_a_worker_can_do(told: float, read: float) -> None:
    beat = said(rate=told, timings={"send": [1.0, told]})
    assert (beat.rate, beat.timings["send"].lately) == (read, min(told, 10 * MOST_RATE))


@pytest.mark.parametrize(
    ("age_ms", "seen_ms"),
    [
        (0, 0),
        (9_999, 9_999),
        (WORKER_GONE_MS, None),
        (-1, 0),
        (-9_999, 0),
        (-WORKER_GONE_MS, None),
        (-(10**6), None),
    ],
)
def test_a_clock_that_stepped_back_makes_nobody_live_for_ever(
    age_ms: int, seen_ms: int | None
) -> None:
    now_ms = 2_000_000
    entry = f"{now_ms - age_ms} {packed(BEAT)}".encode()
    seen = [] if seen_ms is None else [LiveWorker(BEAT, seen_ms)]
    assert Roll("eu").read([(b"w1", entry)], now_ms) == seen


def test_the_log_tells_once_an_hour_of_a_worker_and_of_few_workers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock_s = [0.0]
    roll = Roll("eu", lambda: clock_s[0])
    for clock_s[0] in (0.0, 1.0, 3_599.0):
        roll.read([(b"w1", b"1 {}"), (b"\xff", b"")], 1)
    assert [vars(line)["worker"] for line in caplog.records] == ["w1", "\ufffd"]
    assert [vars(line)["reason"] for line in caplog.records] == ["worker_id", "no time"]
    for clock_s[0] in (3_600.0, 3_601.0):
        roll.read([(b"w1", b"1 {}")], 1)
    assert len(caplog.records) == 3
    roll.read([(f"n{nth}".encode(), b"1 {}") for nth in range(1_000)], 1)
    assert len(caplog.records) < 100
