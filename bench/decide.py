"""What one routing decision costs a router: 5 regions, 50 rules, in microseconds of CPU time.

*cached*: the task's shape is known and the regions were looked at for a task that is alike. *cold*:
rules, fences, regions and all: nothing is known but the census.
"""

import random
import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

from router.census import Census
from router.route import Routes
from tradewind.clock import ManualClock
from tradewind.fleet import Fleet, Match, RedisTarget, Region, Rule
from tradewind.policy.decide import decide, survey
from tradewind.policy.filters import borders
from tradewind.policy.rules import Resolved, resolve
from tradewind.task import Draft
from tradewind.view import RegionView

TARGET_US: Final = 20.0  # of a cached decision (the issue)
_NAMES: Final = ("us-east", "eu-west", "ap-south", "sa-east", "af-south")
_REDIS: Final = RedisTarget("standalone", ("127.0.0.1:1",))


def fleet() -> Fleet:
    """Five regions, of which 49 rules concern other tasks and the last one every task."""
    regions = {
        name: Region(name, _REDIS, (f"group-{index}", "all")) for index, name in enumerate(_NAMES)
    }
    rules = [
        Rule(f"r{i}", Match((f"svc{i}.*",), tenants=(f"t{i}-*",)), residency=("group-0",))
        for i in range(49)
    ]
    rules.append(Rule("last", Match(labels={"class": "b*"}), residency=("all",)))
    return Fleet(regions, rules=tuple(rules), version="v1")


class Seen(Census):
    """A census that sees what it is given, so that a figure is of the decision alone."""

    def __init__(self, world: Fleet, depth: int) -> None:
        """Ten busy slots everywhere, and `depth` tasks that wait in the router's own region."""
        super().__init__(world, _NAMES[0], {}, ManualClock())
        self._seen = [
            RegionView(
                name,
                1.0 + 30 * index,
                depth=0 if index else depth,
                slots=10,
                free_slots=0,
                rate=10.0,
                service_s=1.0,
                served={"default": frozenset({"*"})},
            )
            for index, name in enumerate(_NAMES)
        ]

    def views(self, origin: str | None = None) -> list[RegionView]:
        """Every region as given."""
        del origin
        return self._seen


def measure(*, repetitions: int = 7, tasks: int = 2_000) -> dict[str, Any]:
    """Return the median and the least of `repetitions`, by what is done."""
    world = fleet()
    found: dict[str, Any] = {"target_us": TARGET_US, "regions": len(_NAMES), "rules": 50}
    plain = Draft("x", labels={"class": "b1"})
    keyed, named = plain._replace(affinity_key="user-42"), plain._replace(request_id="r-1")
    for where, depth in (("home", 0), ("spill", 60)):
        for what, draft in (("plain", plain), ("keyed", keyed), ("by request_id", named)):
            routes, resolved = Routes(world, Seen(world, depth), _dice()), resolve(draft, world)
            found[f"cached, {what}, {where}"] = _us(
                lambda draft=draft, resolved=resolved, routes=routes: routes.choose(
                    draft, resolved, "", {}
                ),
                repetitions,
                tasks,
            )
        seen, resolved = Seen(world, depth), resolve(named, world)
        routes = Routes(world, seen, _dice())
        found[f"a look for each, {where}"] = _us(
            lambda seen=seen, routes=routes, resolved=resolved: _anew(
                seen, routes, named, resolved
            ),
            repetitions,
            tasks,
        )
        views = Seen(world, depth).views()
        found[f"cold, {where}"] = _us(
            lambda views=views: decide(plain, views, world, draw=0.5), repetitions, tasks
        )
    found["of cold: the rules"] = _us(lambda: resolve(plain, world), repetitions, tasks)
    seen, views = Census(world, _NAMES[0], {}, ManualClock()), Seen(world, 0).views()
    resolved, known = resolve(plain, world), borders(world, ("all",), "")
    found["of a look: the census"] = _us(seen.views, repetitions, tasks)
    found["of a look: the survey"] = _us(
        lambda: survey(plain, views, world, resolved=resolved, borders=known), repetitions, tasks
    )
    return found


def _anew(seen: Census, routes: Routes, draft: Draft, resolved: Resolved) -> None:
    """Decide after something was heard of a region: as all do where few tasks come."""
    seen.news += 1
    routes.choose(draft, resolved, "", {})


def _dice() -> random.Random:
    return random.Random(1)  # equal figures need equal draws


def _us(call: Callable[[], object], repetitions: int, tasks: int) -> dict[str, float]:
    taken: list[float] = []
    for _ in range(repetitions):
        began_s = time.process_time()
        for _ in range(tasks):
            call()
        taken.append((time.process_time() - began_s) / tasks * 1e6)
    return {"median_us": round(median(taken), 2), "least_us": round(min(taken), 2)}


if __name__ == "__main__":
    for name, figure in measure().items():
        print(f"{name:24} {figure}")
