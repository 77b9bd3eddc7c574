"""How good a region is now: expected seconds until the task starts there, lower is better. Pure.

Every term can be checked by hand (routing.md 2.4):
    queue = max(0, depth + routers * in_flight - rate * age)
    wait  = max(0, queue + 1 - free_slots) / max(rate, slots / service)
    score = (rtt_weight * rtt + wait_weight * wait + cost_weight * cost) / success rate
"""

from tradewind.fleet import Fleet, Region
from tradewind.view import RegionView

DEFAULT_SERVICE_S = 1.0  # an attempt, until one has been measured
UNSEEN_RTT_MS = 100.0  # before any measurement (routing.md 2.1)
UNKNOWN_RATE = 1.0  # tasks/s of a region that nothing is known of: not free, and not out of reach
MIN_RATE = 0.001  # tasks/s; keeps a wait finite
MIN_OK = 0.05  # routing.md 2.4: below, a region is judged by its health
DEGRADED_FACTOR = 1.5  # routing.md 2.4
# Slow start begins at 10 % (Envoy, gRPC A100; routing.md 2.7). A view does not say how far the
# ramp has come, so the whole of it counts as its foot: too few tasks rather than too many.
RECOVERING_RAMP = 0.1


def queue_length(view: RegionView) -> float:
    """Ready tasks there by now: other routers are taken to send as we do, what drained is off."""
    return max(0.0, view.depth + view.routers * view.in_flight - view.rate * view.age_s)


def wait_s(view: RegionView) -> float:
    """Seconds until a worker takes up a task that is sent now."""
    ahead = queue_length(view) + 1 - view.free_slots
    if ahead <= 0:
        return 0.0
    if not view.slots and not view.rate:
        return ahead / UNKNOWN_RATE
    service_s = view.service_s or DEFAULT_SERVICE_S
    return ahead / max(view.rate, view.slots / service_s, MIN_RATE)


def score_s(view: RegionView, region: Region, fleet: Fleet, wait: float) -> float:
    """Seconds until the task starts, costs included; `wait` is `wait_s(view)`."""
    steering = fleet.steering
    seconds = (
        steering.rtt_weight * view.rtt_ms / 1000
        + steering.wait_weight * wait
        + steering.cost_weight_s * region.cost
    )
    # A region that fails fast looks fast: success counts (routing.md finding 5).
    seconds /= max(MIN_OK, view.ok)
    if view.health == "RECOVERING":
        return seconds / RECOVERING_RAMP
    degraded = view.health == "DEGRADED" or view.age_s * 1000 > fleet.health.stale_after_ms
    return seconds * DEGRADED_FACTOR if degraded else seconds
