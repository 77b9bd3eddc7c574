"""When a submit is made again under another request_id, and when at once."""

import pytest

from tradewind.client.repeats import DRAWS, Attempts
from tradewind.errors import (
    HomeUnreachable,
    NoRegionReachable,
    OutcomeUnknown,
    RegionsFull,
    RouterUnreachable,
    TradewindError,
)


def said(error: TradewindError, *, elsewhere: bool = False) -> TradewindError:
    error.nothing_kept, error.elsewhere = True, elsewhere
    return error


SILENT = HomeUnreachable("us-east")
LOST = RouterUnreachable("router:7070")
UNKNOWN = OutcomeUnknown("06fy", deadline_passed=True)
NOWHERE = said(NoRegionReachable("no permitted region answers"))
NOTHING = said(HomeUnreachable("us-east"))
ELSEWHERE = said(HomeUnreachable("us-east"), elsewhere=True)
FULL = said(RegionsFull("the home of the record is full"), elsewhere=True)
LATER, AT_ONCE = (True, False), (True, True)  # another request_id, after a pause or without one
SAME = (False, False)

# whose request_id it is, how attempts were refused -> another id for the next one? at once?
ATTEMPTS: dict[str, tuple[bool, list[TradewindError], list[tuple[bool, bool]]]] = {
    "nothing is said": (True, [SILENT], [SAME]),
    "the first attempt left nothing": (True, [NOTHING], [LATER]),
    "no region could take it": (True, [NOWHERE], [LATER]),
    "a region that answers may keep another id": (True, [ELSEWHERE], [AT_ONCE]),
    "also where homes are full": (True, [FULL], [AT_ONCE]),
    "a caller's own id is never replaced": (False, [ELSEWHERE, NOTHING], [SAME, SAME]),
    "a lost answer may have stored it": (True, [LOST, ELSEWHERE, NOTHING], [SAME, SAME, SAME]),
    "so may an unknown one": (True, [UNKNOWN, ELSEWHERE], [SAME, SAME]),
    "and what was left before": (True, [SILENT, ELSEWHERE], [SAME, SAME]),
    "another id is one of its own": (True, [NOTHING, LOST, ELSEWHERE], [LATER, SAME, SAME]),
    "each id has a first attempt": (True, [ELSEWHERE, NOTHING, SILENT], [AT_ONCE, LATER, SAME]),
    "a few times at once": (True, [ELSEWHERE] * (DRAWS + 2), [AT_ONCE] * DRAWS + [LATER] * 2),
    "in all": (
        True,
        [*[ELSEWHERE] * DRAWS, NOWHERE, ELSEWHERE],
        [*[AT_ONCE] * DRAWS, LATER, LATER],
    ),
}


@pytest.mark.parametrize(("is_ours", "refusals", "expected"), ATTEMPTS.values(), ids=ATTEMPTS)
def test_what_follows_a_refusal(
    is_ours: bool, refusals: list[TradewindError], expected: list[tuple[bool, bool]]
) -> None:
    attempts = Attempts(is_ours)
    assert not attempts.next()
    found: list[tuple[bool, bool]] = []
    for refusal in refusals:
        before = attempts.number
        at_once = attempts.refused(refusal)
        is_renewed = attempts.next()
        assert attempts.number == (1 if is_renewed else before + 1)
        found.append((is_renewed, at_once))
    assert found == expected
