"""What `tradewind submit` says of a task that was accepted."""

from dataclasses import replace

import pytest

from tradewind.cli import submit
from tradewind.client.views import Receipt
from tradewind.state import State

PLAIN = Receipt("01hf7yat00gy5h00r00000000f", "eu-west", 3, State.PENDING, rule="home")


def told(receipt: Receipt) -> list[str]:
    show = submit._receipt_text  # pyright: ignore[reportPrivateUsage]
    return show(receipt).splitlines()


@pytest.mark.parametrize(("unconfirmed", "notes"), [(False, 0), (True, 1)])
def test_what_is_not_confirmed_is_said(*, unconfirmed: bool, notes: int) -> None:
    first, *more = told(replace(PLAIN, replication_unconfirmed=unconfirmed))
    assert first == "01hf7yat00gy5h00r00000000f  PENDING in eu-west  (home)"
    assert more == ["stored, but not confirmed to be as durable as its queue asks"] * notes
