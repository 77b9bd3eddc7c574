"""One timer for all limits: each fires once, in time, unless it was lifted."""

import asyncio

from worker.deadlines import Deadlines

SHORT_S, LONG_S = 0.01, 0.03
FINEST_S = 0.001  # what a loop tells apart


class Limited:
    """Says when its limit has passed."""

    def __init__(self) -> None:
        self.passed = asyncio.get_running_loop().create_future()

    def past_limit(self) -> None:
        self.passed.set_result(asyncio.get_running_loop().time())  # a second call would raise


async def test_limits_of_several_lengths_end_in_their_order_and_not_early() -> None:
    deadlines, began_s = Deadlines(), asyncio.get_running_loop().time()
    long, short, other = Limited(), Limited(), Limited()
    deadlines.set(long, LONG_S)
    deadlines.set(short, SHORT_S)  # earlier than the timer that stands
    deadlines.set(other, LONG_S)
    ends_s = [await one.passed for one in (short, long, other)]
    assert ends_s == sorted(ends_s)
    assert ends_s[0] - began_s >= SHORT_S - FINEST_S
    assert ends_s[1] - began_s >= LONG_S - FINEST_S
    assert [deadlines.lift(one, LONG_S) for one in (long, other)] == [0.0, 0.0]


async def test_a_lifted_limit_never_ends_and_those_behind_it_do() -> None:
    deadlines = Deadlines()
    first, second, third = Limited(), Limited(), Limited()
    for one in (first, second, third):
        deadlines.set(one, SHORT_S)
    assert 0 < deadlines.lift(first, SHORT_S) <= SHORT_S
    assert deadlines.lift(first, SHORT_S) == 0
    await third.passed
    assert (first.passed.done(), second.passed.done()) == (False, True)


async def test_what_ends_may_set_a_limit_anew() -> None:
    deadlines, again = Deadlines(), Limited()

    class SetsAgain:
        def past_limit(self) -> None:
            deadlines.set(again, SHORT_S)

    deadlines.set(SetsAgain(), SHORT_S)
    await again.passed


async def test_nothing_is_kept_of_limits_that_were_lifted() -> None:
    deadlines, one = Deadlines(), Limited()
    for limit_s in range(1, 1000):
        deadlines.set(one, limit_s)
        deadlines.lift(one, limit_s)
    assert deadlines.lengths == 0
