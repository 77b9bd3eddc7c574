"""Small fleets and views for the policy tests."""

from typing import Any

from tradewind.fleet import Fleet, RedisTarget, Region, Rule
from tradewind.view import RegionView

REDIS = RedisTarget("standalone", ("127.0.0.1:6379",))
SERVED = {"default": frozenset({"*"})}


def region(name: str, *groups: str, **changes: Any) -> Region:
    return Region(name, REDIS, tuple(groups), **changes)


def fleet(*regions: Region, rules: tuple[Rule, ...] = (), **changes: Any) -> Fleet:
    listed = regions or (region("eu", "eu"), region("us", "us"), region("ap", "apac"))
    named = {r.name: r for r in listed}
    return Fleet(named, rules=rules, version="v1", **changes)


def view(name: str, rtt_ms: float = 1.0, **changes: Any) -> RegionView:
    """Show a healthy region that would start a task at once."""
    idle: dict[str, Any] = {"slots": 10, "free_slots": 10, "service_s": 1.0, "served": SERVED}
    return RegionView(name, rtt_ms, **(idle | changes))


def busy(name: str, wait_s: float, rtt_ms: float = 1.0, **changes: Any) -> RegionView:
    """Show a region with ten busy slots where a task waits about `wait_s`."""
    depth = max(0, round(wait_s * 10) - 1)
    return view(name, rtt_ms, **({"free_slots": 0, "depth": depth} | changes))


def unserved(name: str, rtt_ms: float = 1.0, **changes: Any) -> RegionView:
    """Show a region whose Redis lives and whose workers have been gone for a minute."""
    gone: dict[str, Any] = {"slots": 0, "free_slots": 0, "served": {}, "unserved_for_s": 60.0}
    return view(name, rtt_ms, **(gone | changes))
