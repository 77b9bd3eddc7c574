"""What nobody runs is warned of, whatever decided where it went."""

from collections.abc import Mapping

import pytest

from tradewind.cli.unserved import is_unserved
from tradewind.client import Receipt
from tradewind.state import State

CASES: Mapping[str, tuple[str, str, bool]] = {
    "the step": ("unserved", "no worker for handler", True),
    "the step, of a router that does not say it otherwise": ("unserved", "", True),
    "a step beside regions in doubt": ("panic", "no worker for handler", True),
    "a rule of the policy file": ("mail-stays", "no live worker", True),
    "an order holds it back, too": ("unserved", "paused", True),
    "an order alone": ("home", "paused", False),
    "nothing": ("panic", "", False),
}


@pytest.mark.parametrize(("rule", "waits_for", "unserved"), CASES.values(), ids=CASES)
def test_it_is_unserved_by(rule: str, waits_for: str, unserved: bool) -> None:
    receipt = Receipt("id", "eu", 0, State.PENDING, rule=rule, waits_for=waits_for)
    assert is_unserved(receipt) == unserved
