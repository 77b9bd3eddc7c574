"""The steps of a choice among regions that may take a task, in the order `decide` gives. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, NamedTuple

from tradewind.fleet import Fleet, Region, Steering
from tradewind.policy import affinity, defaults, filters
from tradewind.policy.rules import Keyed, Resolved
from tradewind.view import RegionView

HOME: Final = "home"  # the nearest
DETOUR: Final = "detour"  # the nearest of those that are in: a nearer one is full or out
FAILOVER: Final = "failover"  # a region of weight 0, which failover.order names for home
NOWHERE: Final = "no region can take the task"
TRIAL: Final = "trial"  # a half-open region: the task shows whether it is well


class Option(NamedTuple):
    """One region with all that is asked about it more than once."""

    name: str
    region: Region
    view: RegionView
    ahead: float  # tasks, see `scores.ahead`
    wait_s: float
    score_s: float
    excluded: tuple[str, ...]  # every reason, most fundamental first


@dataclass(frozen=True, slots=True)
class Memory:
    """What a router remembers when it decides about tasks that have the same regions to choose of.

    Without any, a decision depends on nothing but the task, the regions and chance.
    """

    home: str | None = None  # the latest: of equally near regions it stays home
    # Homes whose tasks leave, and within what part of the band of the best they return.
    bands: Mapping[str, float] = field(default_factory=dict[str, float])
    settled: Collection[str] = ()  # homes to which tasks returned less than a dwell ago
    filled: Collection[str] = ()  # regions that this router has sent their share of guests
    panics: bool | None = None  # whether it is panic; None: as the views say
    since: Mapping[str, int] = field(default_factory=dict[str, int])  # tasks sent since the views


NO_MEMORY: Final = Memory()


@dataclass(frozen=True, slots=True)
class Wish:
    """Everything that a choice depends on besides the regions themselves, and chance."""

    resolved: Resolved
    fleet: Fleet
    ledger_home: str
    origin: str
    memory: Memory = NO_MEMORY


class Choice(NamedTuple):
    """Each region's chance at the step that decides, and what taking it is called.

    `home` is empty if distance had no part in it; else `leaves` says whether tasks spill from it.
    """

    shares: dict[str, float]
    reasons: dict[str, str]
    best: str
    home: str = ""
    leaves: bool = False

    def drawn(self, draw: float) -> str:
        """Return the region that `draw`, in [0, 1), falls on; "" if there is none."""
        if len(self.shares) > 1:
            reached = zip(self.shares, accumulate(self.shares.values()), strict=True)
            # The sum of the shares may end a rounding error below 1: then it is the best.
            return next((name for name, upper in reached if draw < upper), self.best)
        return self.best


def only_affine(options: Sequence[Option], resolved: Resolved) -> Sequence[Option]:
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
        else option._replace(excluded=(filters.NOT_AFFINITY, *option.excluded))
        for option in options
    ]


def choose(pool: Sequence[Option], wish: Wish, *, panics: bool = False) -> Choice:
    """Weigh the regions of `pool`; region "" if it is empty."""
    if not pool:
        return Choice({}, {"": NOWHERE}, "")
    resolved = wish.resolved
    preferred: list[Option] = []
    if prefer := resolved.prefer:
        preferred = [option for option in pool if option.name in prefer]
        preferred.sort(key=lambda option: prefer.index(option.name))
        pool = preferred or pool
    return (
        _named(pool, wish)
        or (_by_slots(pool) if panics and not _is_only_busy(pool) else None)
        or (_in_rule_order(preferred, wish) if preferred else None)
        or _near(pool, wish)
    )


def standby(options: Sequence[Option], wish: Wish) -> Choice | None:
    """Take the first region of weight 0 in order that failover.order names for the task's home.

    Home is the nearest permitted region that takes tasks as a rule, whatever its state now.
    """
    orders = wish.fleet.failover.order
    resolved = wish.resolved
    if not orders or resolved.pin:
        return None
    usual = [o for o in options if not filters.BY_POLICY.intersection(o.excluded)]
    if not usual or any(filters.NOT_AFFINITY in option.excluded for option in usual):
        return None
    waiting = {o.name: o for o in options if o.excluded == (filters.WEIGHT_ZERO,)}
    named = (waiting.get(name) for name in orders.get(home_of(usual, wish).name, ()))
    first = next((option for option in named if option is not None), None)
    return certain(first, FAILOVER) if first else None


def bypassed(options: Sequence[Option], wish: Wish, home: str) -> str:
    """Name the region that would be home if it were in; empty if that is `home` itself.

    One that nobody expects to run the task is none: policy leaves it out, it has no handler, or it
    cannot keep the task as its queue asks.
    """
    usual = [option for option in options if _NEVER_HOME.isdisjoint(option.excluded)]
    nearest = home_of(usual, wish).name if usual else home
    return "" if nearest == home else nearest


_NEVER_HOME: Final = filters.BY_POLICY | {filters.NO_HANDLER, filters.DURABILITY}


def certain(option: Option, reason: str) -> Choice:
    """Take `option`, whatever the chance."""
    return Choice({option.name: 1.0}, {option.name: reason}, option.name)


def _named(pool: Sequence[Option], wish: Wish) -> Choice | None:
    """Go where the pin or the key says; for both `required` ones a single region is left."""
    if wish.resolved.pin:
        return certain(pool[0], "pin")
    keyed = wish.resolved.affinity
    if keyed is None:
        return None
    if keyed.mode == "required":
        return certain(pool[0], "affinity")
    return certain(_walk(keyed, pool, wish.memory.since), "affinity")


def _by_slots(pool: Sequence[Option]) -> Choice | None:
    """Share by the slots last known of each: in panic nothing else is trusted."""
    total = sum(option.view.slots for option in pool)
    if not total:
        return None
    shares = {option.name: option.view.slots / total for option in pool}
    best = max(shares, key=lambda name: (shares[name], name))
    return Choice(shares, dict.fromkeys(shares, "spill"), best)


def _is_only_busy(pool: Sequence[Option]) -> bool:
    """Whether nothing speaks against them but their queues, which are known."""
    return all(option.excluded == (filters.WAIT,) for option in pool)


def _in_rule_order(preferred: Sequence[Option], wish: Wish) -> Choice:
    """Take the rule's first, whatever its distance, unless tasks wait longer there than needed."""
    first = preferred[0]
    shortest_s = min(option.wait_s for option in preferred)
    if first.wait_s <= shortest_s + _band_s(wish.fleet.steering, shortest_s):
        return _as_it_recovers(first, preferred, "prefer")
    return _softmin(preferred, first.name)


def _near(pool: Sequence[Option], wish: Wish) -> Choice:
    """Stay with the ledger entry, or at home, while their score is within the band; else share."""
    best_s = min([option.score_s for option in pool])
    band_s = _band_s(wish.fleet.steering, best_s)
    if wish.ledger_home and len(pool) > 1:  # the only one left needs no such reason
        for option in pool:
            if option.name == wish.ledger_home and option.view.ramp >= 1:
                if option.score_s <= best_s + band_s:
                    return certain(option, "ledger")
                break
    home = home_of(pool, wish)
    band_s *= wish.memory.bands.get(home.name, 1.0)
    # A ramp is no reason to leave: it says how many of the tasks stay.
    as_usual_s = home.score_s * max(defaults.MIN_RAMP, min(1.0, home.view.ramp))
    patience_s = defaults.SETTLED_PATIENCE_S
    stays = home.name in wish.memory.settled and not waits_longer(home, pool, patience_s)
    if stays or as_usual_s <= best_s + band_s:
        return _as_it_recovers(home, pool, HOME)._replace(home=home.name)
    return _softmin(pool, home.name)._replace(home=home.name, leaves=True)


def waits_longer(home: Option, pool: Sequence[Option], by_s: float) -> bool:
    """Whether a task waits longer at home than where it waits least, and by more than `by_s`."""
    return home.wait_s > min([o.wait_s for o in pool]) + by_s


def _band_s(steering: Steering, of_s: float) -> float:
    return max(steering.band_min_ms / 1000, steering.band * of_s)


def home_of(pool: Sequence[Option], wish: Wish) -> Option:
    """Find the nearest; of equally near ones the origin, else the home of the task before.

    So noise moves nothing, also where all regions are on one machine.
    """
    limit_ms = min([option.view.rtt_ms for option in pool]) + defaults.EQUALLY_NEAR_MS
    near = [option for option in pool if option.view.rtt_ms <= limit_ms]
    kept = None
    for option in near:
        if option.name == wish.origin:
            return option
        if option.name == wish.memory.home:
            kept = option
    return kept or min(near, key=_distance)


def _distance(option: Option) -> tuple[float, str]:
    return option.view.rtt_ms, option.name


def _as_it_recovers(first: Option, pool: Sequence[Option], reason: str) -> Choice:
    """Take `first`; while it recovers only with its ramp's share, and the others by their scores.

    So its tasks return one by one, though it is the best of all from the first moment.
    """
    ramp = max(defaults.MIN_RAMP, first.view.ramp)
    if ramp >= 1 or len(pool) == 1:
        return certain(first, reason)
    others = _softmin([option for option in pool if option is not first], first.name)
    shares = {
        option.name: ramp if option is first else (1 - ramp) * others.shares[option.name]
        for option in pool
    }
    return Choice(shares, {**others.reasons, first.name: reason}, others.best)


def _order(keyed: Keyed, options: Sequence[Option]) -> tuple[str, ...]:
    # A pin lets weight 0 in, but then nothing is ordered.
    return affinity.rank(keyed.key, [(o.name, o.region.weight) for o in options])


def _walk(keyed: Keyed, pool: Sequence[Option], since: Mapping[str, int]) -> Option:
    """Find the first in the key's order that starts the task at once, or is not overloaded.

    Overloaded: over BOUNDED_LOAD times its share by weight of all tasks there, rounded up
    (Mirrokni, Thorup, Zadimoghaddam 2018, where the bound is a ceiling too). To a region that
    recovers its keys return one by one, each at its own point of the ramp.
    """
    by_name = {option.name: option for option in pool}
    loads = {o.name: o.ahead - 1 + o.view.slots + since.get(o.name, 0) for o in pool}
    per_weight = (sum(loads.values()) + 1) / sum([o.region.weight for o in pool])
    order = _order(keyed, pool)
    for name in order:
        option = by_name[name]
        ramp = option.view.ramp
        if ramp < 1 and affinity.fraction(keyed.key, name) >= max(defaults.MIN_RAMP, ramp):
            continue
        bound = math.ceil(defaults.BOUNDED_LOAD * per_weight * option.region.weight)
        if option.ahead + since.get(name, 0) <= 0 or loads[name] + 1 <= bound:
            return option
    return by_name[order[0]]


def _softmin(pool: Sequence[Option], home: str) -> Choice:
    best = min(pool, key=_score)
    # The age of the best one's report: that is the number which every router runs after.
    temperature_s = max(
        defaults.MIN_TEMPERATURE_S,
        defaults.TEMPERATURE_PER_AGE * best.view.age_s,
        defaults.TEMPERATURE_PER_WAIT * (best.wait_s - defaults.SPILL_PATIENCE_S),
    )
    parts = [
        option.region.weight
        * max(defaults.MIN_RAMP, min(1.0, option.view.ramp))
        * math.exp((best.score_s - option.score_s) / temperature_s)
        for option in pool
    ]
    total = math.fsum(parts)
    shares = {option.name: part / total for option, part in zip(pool, parts, strict=True)}
    reasons = {name: HOME if name == home else "spill" for name in shares}
    return Choice(shares, reasons, best.name)


def _score(option: Option) -> tuple[float, str]:
    return option.score_s, option.name
