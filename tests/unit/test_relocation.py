"""Which reasons to stay in a region that is evacuated may pass by themselves."""

import pytest

from tradewind import codec
from tradewind.policy.relocate import (
    ALL_TRIED,
    FENCED,
    MOVED_LATELY,
    NO_GUESTS,
    NO_HOPS_LEFT,
    PINNED,
)
from tradewind.relocation import RUNNING, may_pass

REASONS = {
    PINNED: False,
    FENCED: False,
    NO_GUESTS: False,
    NO_HOPS_LEFT: False,
    ALL_TRIED: False,
    RUNNING: False,
    "today's rules: no region is in de and in fr": False,
    MOVED_LATELY: True,
    "us: no live worker": True,
    "de: not healthy, us: draining": True,
    "outside the fence of every region whose workers live": True,
    "other reasons": True,
}


@pytest.mark.parametrize(("reason", "passes"), REASONS.items(), ids=REASONS)
def test_what_a_person_has_to_change_does_not_pass(reason: str, *, passes: bool) -> None:
    assert may_pass(reason) is passes


def test_what_cannot_be_read_stays() -> None:
    with pytest.raises(codec.DamagedRecord) as caught:
        codec.unpack(b"no record")
    assert not may_pass(str(caught.value))
