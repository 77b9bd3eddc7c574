import pytest

from tests.unit.policy.worlds import busy, fleet, region, unserved, view
from tradewind.fleet import FailoverPlan, RegionLimits
from tradewind.policy import filters
from tradewind.policy.scores import wait_s
from tradewind.view import RegionView

BORDERS: dict[str, tuple[int, tuple[str, ...], str, tuple[str, ...]]] = {
    "inside without a pin": (100, ("eu",), "", ()),
    "outside the fence": (100, ("us",), "", (filters.OUTSIDE_FENCE,)),
    "outside the fence, though pinned": (100, ("us",), "eu", (filters.OUTSIDE_FENCE,)),
    "outside the fence, and pinned elsewhere": (
        100,
        ("us",),
        "us",
        (filters.OUTSIDE_FENCE, filters.NOT_PINNED),
    ),
    "outside the fence, and weight 0": (
        0,
        ("us",),
        "",
        (filters.OUTSIDE_FENCE, filters.WEIGHT_ZERO),
    ),
    "pinned here": (100, ("eu",), "eu", ()),
    "pinned elsewhere": (100, ("eu",), "us", (filters.NOT_PINNED,)),
    "weight 0": (0, ("eu",), "", (filters.WEIGHT_ZERO,)),
    "weight 0, but pinned here": (0, ("eu",), "eu", ()),
}


@pytest.mark.parametrize(("weight", "permitted", "pin", "reasons"), BORDERS.values(), ids=BORDERS)
def test_policy_says(
    weight: int, permitted: tuple[str, ...], pin: str, reasons: tuple[str, ...]
) -> None:
    assert filters.border(region("eu", weight=weight), permitted, pin) == reasons


ONLY_B = {"default": frozenset({"b"})}
CONDITIONS: dict[str, tuple[RegionView, list[str]]] = {
    "a region in order": (view("eu"), []),
    "degraded is still in": (view("eu", health="DEGRADED"), []),
    "recovering is still in": (view("eu", health="RECOVERING"), []),
    "workers gone for long": (unserved("eu"), [filters.NO_WORKER]),
    "workers gone for a moment": (unserved("eu", unserved_for_s=14.9), []),
    "nothing heard yet is not unserved": (RegionView("eu", 1.0), []),
    "workers without the handler": (view("eu", served=ONLY_B), [filters.NO_HANDLER]),
    "workers of other queues only": (
        view("eu", served={"mail": frozenset({"*"})}),
        [filters.NO_HANDLER],
    ),
    "workers with the handler": (view("eu", served={"default": frozenset({"a"})}), []),
    "cordoned": (view("eu", state="CORDONED"), [filters.CORDONED]),
    "draining": (view("eu", state="DRAINING"), [filters.DRAINING]),
    "down": (view("eu", health="DOWN"), [filters.DOWN]),
    "down, however old the report": (view("eu", health="DOWN", age_s=99.0), [filters.DOWN]),
    "health unknown": (view("eu", health="UNKNOWN"), [filters.UNKNOWN]),
    "a report of half a minute ago": (view("eu", age_s=30.1), [filters.UNKNOWN]),
    "a report of ten seconds ago": (view("eu", age_s=30.0), []),
    "out of memory": (view("eu", full=True), [filters.FULL]),
    "backlog at its limit": (view("eu", depth=50, rate=1000.0), [filters.BACKLOG]),
    "wait over its limit": (busy("eu", 3.0), [filters.WAIT]),
    "wait at its limit": (busy("eu", 2.0), []),
    "all reasons, the fundamental first": (
        unserved("eu", state="DRAINING", health="UNKNOWN", full=True, depth=60),
        [
            filters.NO_WORKER,
            filters.DRAINING,
            filters.UNKNOWN,
            filters.FULL,
            filters.BACKLOG,
        ],
    ),
    "where nobody works for a moment the wait is a guess": (
        unserved("eu", unserved_for_s=14.9, depth=40),
        [],
    ),
}


@pytest.mark.parametrize(("seen", "reasons"), CONDITIONS.values(), ids=CONDITIONS)
def test_conditions_exclude(seen: RegionView, reasons: list[str]) -> None:
    limited = region("eu", limits=RegionLimits(max_backlog=50, max_wait_ms=2_000))
    world = fleet(limited)
    found = filters.conditions(seen, limited, world, "default", "a", wait_s(seen))
    assert list(found) == reasons


def test_unserved_after_is_the_files() -> None:
    world = fleet(failover=FailoverPlan(unserved_after_ms=90_000))
    found = filters.conditions(unserved("eu"), world.regions["eu"], world, "default", "a", 1.0)
    assert list(found) == []
