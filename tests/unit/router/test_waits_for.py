"""What a task that waits is told to wait for."""

from collections.abc import Mapping

import pytest

from router.waits import ordered, waits_for
from tests.unit.policy.worlds import fleet, unserved, view
from tradewind.control import EMPTY, Control, Order, Pause, Stamp
from tradewind.state import State
from tradewind.view import RegionView

PAUSED = Control(Stamp(1, "a"), pauses={"mail": Pause()})
DRAINED = Control(Stamp(1, "a"), regions={"eu": Order("DRAINING"), "us": Order("CORDONED")})
BOTH = Control(Stamp(2, "b"), regions=DRAINED.regions, pauses=PAUSED.pauses)
MAIL = {"mail": frozenset({"send"})}
SERVED, OTHER = view("eu", served=MAIL), view("eu", served={"mail": frozenset({"other"})})

CASES: Mapping[str, tuple[State, RegionView, Control, str]] = {
    "its turn": (State.PENDING, SERVED, EMPTY, ""),
    "its queue": (State.PENDING, SERVED, PAUSED, "paused"),
    "its region": (State.PENDING, SERVED, DRAINED, "draining"),
    "both, of which the queue is held everywhere": (State.PENDING, SERVED, BOTH, "paused"),
    "nothing where only new work is kept out": (
        *(State.PENDING, view("us", served=MAIL), DRAINED),
        "",
    ),
    "a worker": (State.PENDING, unserved("eu"), EMPTY, "no live worker"),
    "a worker that is not missed for long": (
        *(State.PENDING, unserved("eu", unserved_for_s=3.0), EMPTY),
        "",
    ),
    "a worker that runs it": (State.PENDING, OTHER, EMPTY, "no worker for handler"),
    "an order rather than a worker": (State.PENDING, unserved("eu"), PAUSED, "paused"),
    "an order, when its retry comes due": (State.FAILED, SERVED, DRAINED, "draining"),
    "an order, when its time comes": (State.SCHEDULED, SERVED, PAUSED, "paused"),
    "its time, until which workers may come": (State.SCHEDULED, unserved("eu"), EMPTY, ""),
    "nothing while it runs": (State.PROCESSING, SERVED, BOTH, ""),
    "nothing while it moves": (State.MOVING, SERVED, BOTH, ""),
    "nothing once it is dead": (State.DEAD_LETTER, unserved("eu"), BOTH, ""),
    "nothing once it has ended": (State.COMPLETED, unserved("eu"), BOTH, ""),
}


@pytest.mark.parametrize(("state", "where", "control", "why"), CASES.values(), ids=CASES)
def test_it_waits_for(state: State, where: RegionView, control: Control, why: str) -> None:
    assert waits_for(state, "mail", "send", where, control, fleet()) == why
    order = ordered(state, "mail", where.name, control)
    assert order == (why if why in {"paused", "draining"} else "")
