"""What is sent over a child's socket comes out as it went in, or not at all."""

import pytest

from tests.unit.worker.jobs import claim
from tradewind.attempts.settle import (
    CalledOff,
    Failed,
    HandedBack,
    Rejected,
    RetryAsked,
    Success,
    TimedOut,
    Unkeepable,
    Unreadable,
)
from tradewind.task import Failure, Priority
from worker import frames
from worker.frames import Frame, NoFrame
from worker.run import Ran

FAILURE = Failure("error", 'ValueError: "é" \\udcff', "a\nb")
ENDS = [
    Ran(Success(b"\x00\xff", "application/octet-stream"), late=True),
    Ran(Failed(FAILURE), error="ValueError", where="a.py:1"),
    Ran(TimedOut(FAILURE)),
    Ran(Rejected(FAILURE)),
    Ran(Unkeepable(FAILURE)),
    Ran(RetryAsked(2000, "no stock")),
    Ran(Unreadable(FAILURE)),
    Ran(HandedBack()),
    Ran(CalledOff()),
]
NONSENSE = {
    "no JSON": b"{",
    "no object": b"[1]",
    "no text": b"\xff",
    "no kind": b'{"a":1}',
}
NO_ENDS: dict[str, dict[str, object]] = {
    "no verdict": {},
    "an unknown one": {"verdict": "Died", "facts": {}},
    "one with facts of another": {"verdict": "HandedBack", "facts": {"result": 1}},
    "one without its facts": {"verdict": "Failed", "facts": {"failure": {}}},
}


def opened(data: bytes) -> Frame:
    head, body = frames.lengths(data[: frames.LENGTHS.size])
    rest = data[frames.LENGTHS.size :]
    assert len(rest) == head + body
    return frames.unpack(rest[:head], rest[head:])


@pytest.mark.parametrize("ran", ENDS, ids=lambda ran: type(ran.verdict).__name__)
def test_an_end_comes_out_as_it_went_in(ran: Ran) -> None:
    assert frames.ran_in(opened(frames.ended("t1/7", ran))) == ran


def test_a_claim_comes_out_as_it_went_in_but_for_its_past() -> None:
    sent = claim(b"\x00\xff")._replace(
        priority=Priority.HIGH, token=2**53 + 1, suspect=True, hops=b"past"
    )
    assert frames.claim_in(opened(frames.run(sent, 250))) == (sent._replace(hops=b""), 250)


@pytest.mark.parametrize("head", NONSENSE.values(), ids=NONSENSE)
def test_what_is_no_frame_is_refused(head: bytes) -> None:
    with pytest.raises(NoFrame):
        frames.unpack(head, b"")


def test_lengths_that_nobody_would_send_are_refused() -> None:
    with pytest.raises(NoFrame):
        frames.lengths(b"GET / HT")


@pytest.mark.parametrize("facts", NO_ENDS.values(), ids=NO_ENDS)
def test_what_is_no_end_is_refused(facts: dict[str, object]) -> None:
    with pytest.raises(NoFrame):
        frames.ran_in(Frame("ended", facts))
