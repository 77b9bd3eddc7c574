"""What operators may ask for, applied to the document that they replace; and the safety rules.

Each takes the document that is agreed on and returns the one to be agreed on. All can be applied
twice: what is asked for holds afterwards, and an order that stands is not dated anew.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from tradewind.control.values import Control, Evacuation, Order, Pause, RegionState
from tradewind.errors import InvalidTask, LastRegion, RegionTakesWork
from tradewind.fleet import Fleet

T = TypeVar("T")

#: Paused queues at a time. Their names come from operators; the document goes to every process.
MAX_PAUSES: Final = 500


def set_state(
    control: Control,
    fleet: Fleet,
    region: str,
    state: RegionState,
    *,
    reason: str = "",
    by: str = "",
    at_ms: int = 0,
    force: bool = False,
) -> Control:
    """Give a region a state. ACTIVE ends its evacuation.

    An order of the same state stays as it is, and ACTIVE is the state without one; an order with
    another reason takes its place, and has still passed the safety rules if that one had.

    Raises InvalidTask for an unknown region, and, unless `force`, LastRegion if a fence of the
    policy would lose its last region that takes new work.
    """
    _check_known(fleet, region)
    if state != "ACTIVE" and not force:
        _check_fences(control, fleet, region)
    order, standing = Order(state, reason, by, at_ms, forced=force), control.regions.get(region)
    orders, evacuations = {**control.regions, region: order}, control.evacuations
    if control.state(region) == state and reason in {"", standing.reason if standing else ""}:
        orders = control.regions
    elif standing is not None and standing.state == state:
        orders[region] = replace(order, forced=force or standing.forced)
    if state == "ACTIVE":
        evacuations = _without(evacuations, region)
    return replace(control, regions=orders, evacuations=evacuations)


def pause(control: Control, queue: str, *, by: str = "", at_ms: int = 0) -> Control:
    """Pause a queue everywhere. Raises InvalidTask if too many are."""
    if queue in control.pauses:
        return control
    if len(control.pauses) >= MAX_PAUSES:
        raise InvalidTask.field("queue", f"{MAX_PAUSES} queues are paused; resume some first")
    return replace(control, pauses={**control.pauses, queue: Pause(by, at_ms)})


def resume(control: Control, queue: str) -> Control:
    """End a pause."""
    return replace(control, pauses=_without(control.pauses, queue))


def evacuate(
    control: Control,
    fleet: Fleet,
    region: str,
    *,
    rate_per_s: float = 0.0,
    by: str = "",
    at_ms: int = 0,
) -> Control:
    """Order that what waits in a region leaves it. An order of the same rate stays as it is.

    Raises InvalidTask for an unknown region, RegionTakesWork if the region is ACTIVE.
    """
    _check_known(fleet, region)
    if control.state(region) == "ACTIVE":
        raise RegionTakesWork(region)
    standing = control.evacuations.get(region)
    if standing is not None and standing.rate_per_s == rate_per_s:
        return control
    order = Evacuation(rate_per_s, by, at_ms)
    return replace(control, evacuations={**control.evacuations, region: order})


def _check_known(fleet: Fleet, region: str) -> None:
    if region not in fleet.regions:
        known = ", ".join(fleet.regions)
        raise InvalidTask.field("region", f"{region!r} is not a region; known: {known}")


def _check_fences(control: Control, fleet: Fleet, region: str) -> None:
    """Raise LastRegion if some fence has `region` and no other that takes new work."""

    def takes(name: str) -> bool:
        return control.state(name) == "ACTIVE" and fleet.regions[name].weight > 0

    if not takes(region):
        return  # it takes none as it is: nothing is lost
    for fence, of in _fences(fleet):
        inside = fleet.inside(fence)
        if region in inside and not any(takes(name) for name in inside if name != region):
            raise LastRegion(region, of)


def _fences(fleet: Fleet) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every fence of the policy, and whose it is: of tasks without one, and of each rule."""
    yield (), "tasks that may run anywhere"
    for rule in fleet.rules:
        if rule.residency:
            yield rule.residency, f"rule {rule.name} ({', '.join(rule.residency)})"


def _without(members: Mapping[str, T], name: str) -> dict[str, T]:
    return {key: value for key, value in members.items() if key != name}
