"""How good a region is now: expected seconds until the task starts there, lower is better. Pure.

Every term can be checked by hand (docs/routing.md, One decision):
    queue = depth - held_back + routers * in_flight
    wait  = max(0, queue + 1 - free_slots) / max(rate, slots / service)
    score = (rtt_weight * rtt + wait_weight * wait + cost_weight * cost) / success rate
    half more while degraded; over its ramp while it recovers

`factors` has all that a score is made of, `parts` the same by name, for whoever asks why.
"""

from tradewind.fleet import Fleet, Region
from tradewind.policy import defaults
from tradewind.view import RegionView, ScoreParts


def queue_length(view: RegionView) -> float:
    """Ready tasks that may start there by now: other routers are taken to send as we do."""
    return float(max(view.depth - view.held_back, 0) + view.routers * view.in_flight)


def ahead(view: RegionView) -> float:
    """Tasks that must end before one that is sent now starts; not above 0: it starts at once."""
    return queue_length(view) + 1 - view.free_slots


def capacity(view: RegionView) -> float:
    """Tasks a second that it completes: as measured, or what its slots can do if that is more."""
    if not view.slots and not view.rate:
        return defaults.UNKNOWN_RATE
    service_s = view.service_s or defaults.SERVICE_S
    return max(view.rate, view.slots / service_s, defaults.MIN_RATE)


def wait_s(view: RegionView) -> float:
    """Seconds until a worker takes up a task that is sent now."""
    waiting = ahead(view)
    return waiting / capacity(view) if waiting > 0 else 0.0


def score_s(view: RegionView, region: Region, fleet: Fleet, wait: float) -> float:
    """Seconds until the task starts, costs included; `wait` is `wait_s(view)`."""
    rtt_s, waits_s, cost_s, ok, ramp, factor = factors(view, region, fleet, wait)
    return (rtt_s + waits_s + cost_s) / ok / ramp * factor


def parts(view: RegionView, region: Region, fleet: Fleet, wait: float) -> ScoreParts:
    """Return what `score_s` is made of."""
    return ScoreParts(*factors(view, region, fleet, wait))


def factors(
    view: RegionView, region: Region, fleet: Fleet, wait: float
) -> tuple[float, float, float, float, float, float]:
    """Return round trip, wait and cost in seconds; success rate, ramp and what health adds."""
    steering = fleet.steering
    is_worse = view.health == "DEGRADED" or view.age_s * 1000 > fleet.health.stale_after_ms
    return (
        steering.rtt_weight * view.rtt_ms / 1000,
        steering.wait_weight * wait,
        steering.cost_weight_s * region.cost,
        # A region that fails fast looks fast: success counts (kubernetes/ingress-nginx #5540).
        max(defaults.MIN_OK, view.ok),
        max(defaults.MIN_RAMP, view.ramp) if view.ramp < 1 else 1.0,
        defaults.DEGRADED_FACTOR if is_worse else 1.0,
    )
