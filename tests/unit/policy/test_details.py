"""What more is said of what keeps a region out: causes, numbers, how long."""

from collections.abc import Mapping

import pytest

from tests.unit.policy.worlds import fleet, region, view
from tradewind.fleet import QueuePolicy, RegionLimits
from tradewind.policy import filters
from tradewind.policy.decide import decide, refusal
from tradewind.task import Draft
from tradewind.view import RegionView

COPY = {"replica": "no replica is connected"}
DETAILS: Mapping[str, tuple[str, RegionView, str]] = {
    "a cause": (filters.DURABILITY, view("eu", lacks=COPY), "replica: no replica is connected"),
    "two causes": (
        *(filters.DURABILITY, view("eu", lacks={**COPY, "fsync": "no log"})),
        "replica: no replica is connected; fsync: no log",
    ),
    "what of a backlog nobody works off": (
        *(filters.BACKLOG, view("eu", depth=198, held_back=170)),
        "170 of 198 ready tasks are paused or run by nobody",
    ),
    "nothing of a plain backlog": (filters.BACKLOG, view("eu", depth=198), ""),
    "how long it is out at least": (
        *(filters.DOWN, view("eu", health="DOWN", out_for_s=23.2)),
        "for 24 s more at least",
    ),
    "nothing once only probes tell": (filters.DOWN, view("eu", health="DOWN"), ""),
    "how long it is kept out": (
        *(filters.KEPT_OUT, view("eu", health="DOWN", kept_out=True, out_for_s=1_401.0)),
        "it went down again and again; for 24 min more",
    ),
    "nothing of what says all": (filters.FULL, view("eu", full=True), ""),
}


@pytest.mark.parametrize(("reason", "where", "said"), DETAILS.values(), ids=DETAILS)
def test_more_is_said(reason: str, where: RegionView, said: str) -> None:
    assert filters.details(where, (reason,)) == ({reason: said} if said else {})
    assert filters.details(where, ()) == {}


REFUSED: Mapping[str, tuple[RegionView, str]] = {
    "a cause, and where to look": (
        view("eu", lacks=COPY),
        "(eu: durability (replica: no replica is connected; see `tradewind doctor`))",
    ),
    "what is in the way": (
        view("eu", depth=198, held_back=170),
        "(eu: backlog over limit (170 of 198 ready tasks are paused or run by nobody))",
    ),
    "no times, which would differ at each repeat": (
        view("eu", health="DOWN", out_for_s=23.2),
        "(eu: down)",
    ),
}


@pytest.mark.parametrize(("where", "said"), REFUSED.values(), ids=REFUSED)
def test_who_is_refused_is_told(where: RegionView, said: str) -> None:
    limits = RegionLimits(max_backlog=100)
    of = fleet(region("eu", limits=limits), default_queue=QueuePolicy(durability="replica"))
    decision = decide(Draft("a"), [where], of, draw=0.5)
    assert decision.region == ""
    assert said in str(refusal(decision, of))
