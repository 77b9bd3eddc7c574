import random

from router.anywhere import Anywhere
from tradewind.limits import MAX_CLAIM


def test_tasks_that_come_together_share_a_place_up_to_a_claim() -> None:
    anywhere = Anywhere(1 << 30, random.Random(1))

    places = [anywhere.at(5) for _ in range(3 * MAX_CLAIM)]

    assert [places.count(place) for place in dict.fromkeys(places)] == [MAX_CLAIM] * 3


def test_what_comes_later_or_after_a_refusal_goes_elsewhere() -> None:
    anywhere = Anywhere(1 << 30, random.Random(1))
    first, same, later = anywhere.at(0), anywhere.at(5), anywhere.at(6)
    anywhere.leave()
    after = anywhere.at(6)
    earlier = anywhere.at(0)  # the regions' clock was set back

    assert first == same
    assert len({first, later, after, earlier}) == 4


def test_every_partition_gets_its_share() -> None:
    anywhere = Anywhere(16, random.Random(1))

    places = [anywhere.at(now_ms) for now_ms in range(0, 160_000, 10)]

    assert all(800 < places.count(place) < 1_200 for place in range(16))
