"""Handlers that end in the worst ways: each task is settled, and the worker lives."""

from pathlib import Path

from tests.flow.hostile_app import RAISED, RETURNED, SECRET
from tests.flow.lab import Lab
from tradewind.state import State

APP = Path(__file__).with_name("hostile_app.py")


async def test_whatever_a_handler_raises_or_returns_its_task_is_settled(lab: Lab) -> None:
    worker = await lab.worker("eu-west", "--app", f"{APP}:app")
    cases = [
        (f"{how}.{kind}", which)
        for how, table in (("raise", RAISED), ("return", RETURNED))
        for which in table
        for kind in ("async", "plain")
    ]
    submitted = {case: await lab.submit(case[0], {"which": case[1]}) for case in cases}
    ended = {case: await lab.ended(task_id) for case, task_id in submitted.items()}
    assert {case: r.state for case, r in ended.items()} == dict.fromkeys(cases, State.DEAD_LETTER)
    assert [
        case for case, record in ended.items() if not (f := record.failure) or not f.message
    ] == []
    said = {which: ended["raise.async", which].failure for which in RAISED}
    texts = {which: failure.message for which, failure in said.items() if failure}
    assert texts["a lone surrogate"] == r"ValueError: bad file \udcff"
    assert texts["a lone surrogate in a reason"] == r"bad file \udcff"
    assert texts["a str subclass from __str__"] == "Shown: odd"
    assert texts["__str__ that exits"] == "Shown: (its message cannot be read)"
    assert ended["raise.async", "a Reject that did not call __init__"].death == "rejected"
    fine = await lab.ended(await lab.submit("fine", {}))
    assert (fine.state, worker.poll()) == (State.COMPLETED, None)
    assert SECRET not in lab.logs()
