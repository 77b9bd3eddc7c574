"""The steps of a choice among regions that may take a task, in the order `decide` gives. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from tradewind.fleet import Fleet, Region, Steering
from tradewind.policy import affinity, filters, scores
from tradewind.policy.rules import Keyed, Resolved
from tradewind.view import RegionView

BOUNDED_LOAD = 1.25  # times the average: where an affinity key walks on (Envoy: 1.2 to 2)
MIN_TEMPERATURE_S = 0.1  # routing.md 2.5
TEMPERATURE_PER_AGE = 0.3  # routing.md 2.5
RETURN_SHARE = 0.5  # of the band: two thresholds make a dead band (routing.md 2.5)
EQUALLY_NEAR_MS = 5.0  # below it, round trips differ by noise: one host, one metro area


@dataclass(frozen=True, slots=True)
class Option:
    """One region with all that is asked about it more than once."""

    region: Region
    view: RegionView
    wait_s: float
    score_s: float
    excluded: tuple[str, ...]  # every reason, most fundamental first

    @property
    def name(self) -> str:
        """Name of the region."""
        return self.region.name


@dataclass(frozen=True, slots=True)
class Wish:
    """Everything that a choice depends on besides the regions themselves, and chance."""

    resolved: Resolved
    fleet: Fleet
    home_hint: str | None
    ledger_home: str
    origin: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Each region's chance at the step that decides, and what taking it is called."""

    shares: dict[str, float]
    reasons: dict[str, str]
    best: str

    def drawn(self, draw: float) -> str:
        """Return the region that `draw`, in [0, 1), falls on; "" if there is none."""
        if len(self.shares) > 1:
            reached = zip(self.shares, accumulate(self.shares.values()), strict=True)
            # The sum of the shares may end a rounding error below 1: then it is the best.
            return next((name for name, upper in reached if draw < upper), self.best)
        return self.best


def only_affine(options: list[Option], resolved: Resolved) -> list[Option]:
    """Exclude all but the key's home, if the affinity is required. A pin is stronger."""
    keyed = resolved.affinity
    if keyed is None or keyed.mode != "required" or resolved.pin:
        return options
    inside = [o for o in options if not filters.BY_POLICY.intersection(o.excluded)]
    inside = [o for o in inside if o.name in resolved.prefer] or inside
    home = _order(keyed, inside)[:1]
    return [
        option
        if option.name in home or filters.BY_POLICY.intersection(option.excluded)
        else replace(option, excluded=(filters.NOT_AFFINITY, *option.excluded))
        for option in options
    ]


def choose(pool: Sequence[Option], wish: Wish) -> Choice:
    """Weigh the regions of `pool`; region "" if it is empty."""
    if not pool:
        return Choice({}, {"": "no region can take the task"}, "")
    prefer = wish.resolved.prefer
    preferred = [option for option in pool if option.name in prefer]
    preferred.sort(key=lambda option: prefer.index(option.name))
    pool = preferred or pool
    return (
        _named(pool, wish.resolved)
        or _in_rule_order(preferred, wish)
        or _near(pool, wish)
        or _softmin(pool, _home(pool, wish))
    )


def _named(pool: Sequence[Option], resolved: Resolved) -> Choice | None:
    """Go where the pin or the key says; for both `required` ones a single region is left."""
    if resolved.pin:
        return _certain(pool[0], "pin")
    keyed = resolved.affinity
    if keyed is None:
        return None
    return _certain(pool[0] if keyed.mode == "required" else _walk(keyed, pool), "affinity")


def _in_rule_order(preferred: Sequence[Option], wish: Wish) -> Choice | None:
    """Take the rule's first, whatever its distance, unless tasks wait longer there than needed."""
    if not preferred:
        return None
    first = preferred[0]
    shortest_s = min(option.wait_s for option in preferred)
    if first.wait_s <= shortest_s + _band_s(wish.fleet.steering, shortest_s):
        return _certain(first, "prefer")
    return _softmin(preferred, first)


def _near(pool: Sequence[Option], wish: Wish) -> Choice | None:
    """Stay with the ledger entry, or at home, while their score is within the band."""
    best_s = min(option.score_s for option in pool)
    band_s = _band_s(wish.fleet.steering, best_s)
    for option in pool:
        if option.name == wish.ledger_home and option.score_s <= best_s + band_s:
            return _certain(option, "ledger")
    home = _home(pool, wish)
    if wish.home_hint not in (None, home.name):
        band_s *= RETURN_SHARE
    return _certain(home, "home") if home.score_s <= best_s + band_s else None


def _band_s(steering: Steering, of_s: float) -> float:
    return max(steering.band_min_ms / 1000, steering.band * of_s)


def _home(pool: Sequence[Option], wish: Wish) -> Option:
    """Find the nearest; of equally near ones the origin, else where the last task went.

    So noise moves nothing, also where all regions are on one machine.
    """
    nearest = min(pool, key=lambda option: (option.view.rtt_ms, option.name))
    limit_ms = nearest.view.rtt_ms + EQUALLY_NEAR_MS
    near = {option.name: option for option in pool if option.view.rtt_ms <= limit_ms}
    return near.get(wish.origin) or near.get(wish.home_hint or "") or nearest


def _certain(option: Option, reason: str) -> Choice:
    return Choice({option.name: 1.0}, {option.name: reason}, option.name)


def _order(keyed: Keyed, options: Sequence[Option]) -> tuple[str, ...]:
    # A pin lets weight 0 in, but then nothing is ordered.
    return affinity.rank(keyed.key, [(o.name, float(o.region.weight)) for o in options])


def _walk(keyed: Keyed, pool: Sequence[Option]) -> Option:
    """Find the first in the key's order that starts the task at once, or is not overloaded.

    Overloaded: over BOUNDED_LOAD times its share by weight of all tasks there, rounded up
    (Mirrokni, Thorup, Zadimoghaddam 2018, where the bound is a ceiling too).
    """
    by_name = {option.name: option for option in pool}
    loads = {option.name: _load(option.view) for option in pool}
    per_weight = (sum(loads.values()) + 1) / sum(option.region.weight for option in pool)
    order = _order(keyed, pool)
    for name in order:
        option = by_name[name]
        bound = math.ceil(BOUNDED_LOAD * per_weight * option.region.weight)
        if option.wait_s == 0 or loads[name] + 1 <= bound:
            return option
    return by_name[order[0]]


def _load(view: RegionView) -> float:
    return scores.queue_length(view) + view.slots - view.free_slots


def _softmin(pool: Sequence[Option], home: Option) -> Choice:
    best = min(pool, key=lambda option: (option.score_s, option.name))
    # The age of the best one's report: that is the number which every router runs after.
    temperature_s = max(MIN_TEMPERATURE_S, TEMPERATURE_PER_AGE * best.view.age_s)
    parts = [
        option.region.weight * math.exp((best.score_s - option.score_s) / temperature_s)
        for option in pool
    ]
    total = math.fsum(parts)
    shares = {option.name: part / total for option, part in zip(pool, parts, strict=True)}
    reasons = {name: "home" if name == home.name else "spill" for name in shares}
    return Choice(shares, reasons, best.name)
