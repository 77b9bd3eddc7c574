"""C49 by a router's own pace: what a small nearest region cannot take, the other does in time."""

import random
from typing import Any

import pytest

from router.route import Routes
from tests.unit.policy.worlds import fleet, region, view
from tradewind.policy.rules import resolve
from tradewind.task import Draft
from tradewind.view import RegionView

SLOTS = {"eu": 2, "us": 50}
RTT_MS = {"eu": 1.0, "us": 90.0}


class Counted:
    """A census that knows of every task that was sent."""

    region = "eu"

    def __init__(self) -> None:
        self.sent = dict.fromkeys(SLOTS, 0)
        self.news, self.at_ms = 0, 0.0

    def now_ms(self) -> float:
        return self.at_ms

    def takes_s(self, _region: str, _name: str) -> float:
        return 1.0

    def views(self, _origin: str | None = None) -> list[RegionView]:
        done = {name: int(slots * self.at_ms / 1000) for name, slots in SLOTS.items()}
        left = {name: max(0, self.sent[name] - done[name]) for name in SLOTS}
        return [
            view(
                name,
                RTT_MS[name],
                slots=slots,
                free_slots=max(0, slots - left[name]),
                depth=max(0, left[name] - slots),
            )
            for name, slots in SLOTS.items()
        ]


@pytest.mark.parametrize("over_s", [0.0, 1.0, 5.0], ids="in {} s".format)
def test_the_surplus_of_a_small_region_is_done_within_twice_the_ideal_time(over_s: float) -> None:
    world = fleet(region("eu"), region("us"))
    census: Any = Counted()
    routes = Routes(world, census, random.Random(5))
    draft = Draft("a")
    resolved = resolve(draft, world)
    for _ in range(500):
        census.sent[routes.choose(draft, resolved, "", {}).region] += 1
        census.news += 1
        census.at_ms += over_s * 1000 / 500
    longest_s = max(census.sent[name] / slots for name, slots in SLOTS.items())
    assert longest_s < 2 * 500 / 52
    assert census.sent["eu"] > 4  # and the near one is not left out

    census.at_ms += 60_000.0
    census.news += 1
    assert {routes.choose(draft, resolved, "", {}).region for _ in range(20)} == {"eu"}


def test_so_it_is_if_they_come_at_once_and_are_sent_where_the_router_says_so() -> None:
    world = fleet(region("eu"), region("us"))
    census: Any = Counted()
    routes = Routes(world, census, random.Random(5))
    draft = Draft("a")
    resolved = resolve(draft, world)
    gathered = dict.fromkeys(SLOTS, 0)
    for _ in range(500):
        chosen = routes.choose(draft, resolved, "", {}).region
        gathered[chosen] += 1
        if routes.is_spent:
            for name in SLOTS:
                census.sent[name] += gathered[name]
            gathered = dict.fromkeys(SLOTS, 0)
            census.news += 1
    longest_s = max((census.sent[name] + gathered[name]) / slots for name, slots in SLOTS.items())
    assert longest_s < 2 * 500 / 52


@pytest.mark.parametrize(
    ("free", "tasks"),
    [pytest.param(50, 52, id="as many as home takes"), pytest.param(1, 4, id="four at least")],
)
def test_one_look_decides(free: int, tasks: int) -> None:
    world = fleet(region("eu"), region("us"))

    class Idle(Counted):
        def views(self, _origin: str | None = None) -> list[RegionView]:
            return [view(name, RTT_MS[name], slots=free, free_slots=free) for name in SLOTS]

    census: Any = Idle()
    routes = Routes(world, census, random.Random(5))
    draft = Draft("a")
    resolved = resolve(draft, world)
    spent: list[bool] = []
    for _ in range(tasks + 3):
        routes.choose(draft, resolved, "", {})
        spent.append(routes.is_spent)
    assert spent.index(True) == tasks - 1
