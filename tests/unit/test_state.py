import subprocess
import sys
from pathlib import Path

import pytest

from tradewind.state import FINAL, TRANSITIONS, Event, IllegalTransition, State, after

ROOT = Path(__file__).parents[2]
ILLEGAL = [
    (state, event) for state in State for event in Event if (state, event) not in TRANSITIONS
]


@pytest.mark.parametrize(("state", "event"), TRANSITIONS)
def test_a_legal_event_leads_where_the_table_says(state: State, event: Event) -> None:
    assert after(state, event) is TRANSITIONS[state, event]


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_an_illegal_event_is_refused(state: State, event: Event) -> None:
    with pytest.raises(IllegalTransition) as caught:
        after(state, event)
    assert (caught.value.state, caught.value.event) == (state, event)


def test_nothing_leads_out_of_a_final_state() -> None:
    assert {State.COMPLETED, State.CANCELLED, State.EXPIRED} == FINAL


def test_every_state_can_be_reached_from_a_submit() -> None:
    reached = {State.PENDING, State.SCHEDULED}
    while more := {to for (source, _), to in TRANSITIONS.items() if source in reached} - reached:
        reached |= more
    assert reached == set(State)


def test_every_event_happens_somewhere() -> None:
    assert {event for _, event in TRANSITIONS} == set(Event)


def test_the_page_on_the_life_of_a_task_is_current() -> None:
    check = [sys.executable, str(ROOT / "tools" / "lifecycle.py"), "check"]
    done = subprocess.run(
        check, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
