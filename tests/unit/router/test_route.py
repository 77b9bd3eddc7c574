"""How often the regions are looked at, and that a shared look decides as one of its own would."""

import random
from collections import Counter
from typing import Any

import pytest

from router.census import Census
from router.route import Routes
from tradewind.clock import ManualClock
from tradewind.errors import StoreUnavailable
from tradewind.fleet import Fleet, RedisTarget, Region
from tradewind.policy.decide import decide
from tradewind.policy.rules import resolve
from tradewind.task import Draft
from tradewind.view import RegionView

FLEET = Fleet(
    regions={
        name: Region(name, RedisTarget("standalone", ("127.0.0.1:1",))) for name in ("eu", "us")
    },
    rtt_ms={("eu", "us"): 650.0, ("us", "eu"): 650.0},
)


class Silent:
    """A region that nobody asks here."""

    def __init__(self, region: str) -> None:
        self.region = region


class Looked(Census):
    """A census that counts how often it is looked at."""

    def __init__(self) -> None:
        self.time = ManualClock()
        silent: Any = {name: Silent(name) for name in FLEET.regions}
        super().__init__(FLEET, "eu", silent, self.time)
        self.looks = 0
        for name in FLEET.regions:
            self.note(name, None)

    def views(self, origin: str | None = None) -> list[RegionView]:
        self.looks += 1
        return super().views(origin)


def world() -> tuple[Looked, Routes]:
    census = Looked()
    return census, Routes(FLEET, census, random.Random(7))


def chosen(routes: Routes, draft: Draft, times: int = 1) -> Counter[str]:
    resolved = resolve(draft, FLEET)
    return Counter(routes.choose(draft, resolved, "", {}).region for _ in range(times))


def test_tasks_that_are_alike_share_a_look() -> None:
    census, routes = world()

    chosen(routes, Draft("a"), 63)
    one = census.looks
    chosen(routes, Draft("b"))
    another_shape = census.looks
    chosen(routes, Draft("a"))

    assert (one, another_shape - one, census.looks - another_shape) == (1, 1, 0)
    chosen(routes, Draft("a"), 64)
    assert census.looks == another_shape + 1


@pytest.mark.parametrize("news", ["an answer", "a failure", "time"])
def test_a_look_is_over_once_anything_is_heard_or_it_is_old(news: str) -> None:
    census, routes = world()
    chosen(routes, Draft("a"), 2)
    before = census.looks

    if news == "an answer":
        census.sent("eu", {"h": 1})
        census.answered("eu", {"h": 1}, {0: 0}, None)
    elif news == "a failure":
        census.note("us", StoreUnavailable("us", "gone", sent=False))
    else:
        census.time.advance(5)
    chosen(routes, Draft("a"), 2)

    assert census.looks == before + 1


def test_a_shared_look_says_of_each_task_what_a_look_of_its_own_says() -> None:
    census, routes = world()
    census.sent(
        "eu", {"h": 1}
    )  # it takes 2 s to start there and 1.65 s in us: just outside the band
    draft = Draft("a")
    resolved = resolve(draft, FLEET)
    draws = random.Random(7)
    regions: set[str] = set()

    for _ in range(200):
        shared = routes.choose(draft, resolved, "", {}, explained=True)
        draw = draws.random()
        alone = decide(draft, census.views("eu"), FLEET, draw=draw, own_region="eu")
        assert shared == alone
        regions.add(alone.region)

    assert regions == {"eu", "us"}  # so chance had a part in it


def test_a_task_with_a_key_sees_those_before_it_though_it_shares_their_look() -> None:
    census, routes = world()
    draft = Draft("a", affinity_key="k")
    resolved = resolve(draft, FLEET)

    first, second, third = (routes.choose(draft, resolved, "", {}).region for _ in range(3))

    # No slot is known anywhere: two of two tasks are within the bound of 1.25, three of three not.
    assert first == second != third
    assert census.looks == 1
