"""Why nothing starts a task that waits: an operator's word, or nobody who runs it. Pure.

In the words of tradewind.policy.filters, which programs may compare.
"""

from typing import Final

from tradewind.control import Control
from tradewind.fleet import Fleet
from tradewind.policy.filters import DRAINING, PAUSED, nobody
from tradewind.state import State
from tradewind.view import RegionView

_WAITING: Final = frozenset({State.PENDING, State.SCHEDULED, State.FAILED})


def ordered(state: State, queue: str, region: str, control: Control) -> str:
    """Say which order holds a task back; empty if none does, or it waits for nothing."""
    if state not in _WAITING:
        return ""
    if control.is_paused(queue):
        return PAUSED
    return DRAINING if control.state(region) == "DRAINING" else ""


def waits_for(
    state: State, queue: str, name: str, view: RegionView, control: Control, fleet: Fleet
) -> str:
    """Say what a task in the region of `view` waits for, besides its turn and its time."""
    if order := ordered(state, queue, view.name, control):
        return order
    return nobody(view, fleet, queue, name) if state is State.PENDING else ""
