"""What loads but will surprise: one sentence each, said by `tradewind policy check`.

Nothing here is a mistake for certain, so nothing here may be wrong: where a doubt is left, as with
globs that cannot be compared, there is no word.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from tradewind.fleet import Fleet, Rule, Webhook
from tradewind.policy.defaults import UNSEEN_RTT_MS
from tradewind.policy.rules import listed
from tradewind.regions.globs import all_globs, match_covers, matches_may_meet, oddity
from tradewind.regions.units import duration_text

# Envoy's overprovisioning factor is 1.4: regions that take on more than 1/1.4 of what they already
# do are expected to fall behind.
_MAX_LOAD = 1 + 1 / 1.4
_NAMED = 3  # of many things that are alike


def warnings(fleet: Fleet) -> list[str]:
    """Say what loads but will surprise: one sentence each."""
    return [
        *_likely_slips(fleet),
        *_odd_globs(fleet),
        *_shadowed_rules(fleet),
        *_leaky_fences(fleet),
        *_lonely_fences(fleet),
        *_stranded_fences(fleet),
        *_groupless_regions(fleet),
        *_idle_rules(fleet),
        *_narrow_fleets(fleet),
        *_unknown_distances(fleet),
        *_odd_numbers(fleet),
        *_distant_receivers(fleet),
        *_unseen_durability(fleet),
    ]


def _likely_slips(fleet: Fleet) -> Iterator[str]:
    """Two fingers in the wrong order make another group, and a region that no fence lets in."""
    for one, other in combinations(sorted(fleet.groups), 2):
        if sorted(one) == sorted(other):
            inside = ", ".join(fleet.inside((one,)))
            others = ", ".join(fleet.inside((other,)))
            yield f"groups {one} ({inside}) and {other} ({others}) are two: is one a typing error?"


def _odd_globs(fleet: Fleet) -> Iterator[str]:
    for rule in fleet.rules:
        for glob in all_globs(rule.match):
            if why := oddity(glob):
                yield f"rule {rule.name} has the glob {glob}: {why}"


def _shadowed_rules(fleet: Fleet) -> Iterator[str]:
    for place, rule in enumerate(fleet.rules):
        by = _shadow(rule, fleet.rules[:place])
        if by is not None:
            lost = f", and its fence {listed(rule.residency)} never holds" if rule.residency else ""
            yield f"rule {rule.name} is never reached: {by.name} before it has all its tasks{lost}"


def _shadow(rule: Rule, earlier: Sequence[Rule]) -> Rule | None:
    return next((by for by in earlier if match_covers(by.match, rule.match)), None)


def _leaky_fences(fleet: Fleet) -> Iterator[str]:
    """A fence holds only for the tasks that no rule before it takes."""
    for place, rule in enumerate(fleet.rules):
        if not rule.residency or _shadow(rule, fleet.rules[:place]):
            continue
        inside = set(fleet.inside(rule.residency))
        leaks = [
            by
            for by in fleet.rules[:place]
            if not inside.issuperset(fleet.inside(by.residency))
            and matches_may_meet(by.match, rule.match)
        ]
        if leaks:
            yield (
                f"the fence {listed(rule.residency)} of rule {rule.name} does not hold for tasks "
                f"that {' or '.join(by.name for by in leaks)} before it takes: "
                f"{_remedy(fleet, rule, leaks)}"
            )


def _remedy(fleet: Fleet, rule: Rule, leaks: Sequence[Rule]) -> str:
    """Say what makes a fence hold. Rules with fences of their own cannot all come first."""
    fences = [by for by in leaks if by.residency]
    if not fences:
        return "put fences first"
    inside = set(fleet.inside(rule.residency))
    if all(inside.issubset(fleet.inside(by.residency)) for by in fences):
        return f"put {rule.name} first, its fence is the narrower one"
    both = inside.intersection(*(fleet.inside(by.residency) for by in fences))
    if not both:
        return "no region is inside both fences: change a match so that no task is in both"
    return (
        "put a rule in front that matches what is in both, fenced to a group of "
        f"{', '.join(name for name in fleet.regions if name in both)} alone"
    )


def _lonely_fences(fleet: Fleet) -> Iterator[str]:
    fences = {(group,) for group in fleet.groups}
    fences |= {rule.residency for rule in fleet.rules if rule.residency}
    single = [fence for fence in sorted(fences) if len(fleet.inside(fence)) == 1]
    if single:
        named = ", ".join(f"[{', '.join(fence)}]" for fence in single)
        yield f"one region alone is inside {named}: tasks fenced so have no failover"


def _stranded_fences(fleet: Fleet) -> Iterator[str]:
    """A region of a fence whose failover.order names nobody inside moves no dead task on."""
    for fence in sorted({rule.residency for rule in fleet.rules if rule.residency}):
        inside = fleet.inside(fence)
        for name in inside if len(inside) > 1 else ():
            order = fleet.failover.order.get(name)
            if order is not None and set(order).isdisjoint(inside):
                yield (
                    f"failover.order of {name} names no region inside {listed(fence)}: tasks "
                    "fenced so that it cannot finish go nowhere else"
                )


def _groupless_regions(fleet: Fleet) -> Iterator[str]:
    if not any(rule.residency for rule in fleet.rules):
        return
    for name, region in fleet.regions.items():
        if not region.residency:
            yield f"region {name} is in no residency group: no fenced task may go there"


def _idle_rules(fleet: Fleet) -> Iterator[str]:
    idle = {name for name, region in fleet.regions.items() if not region.weight}
    for rule in fleet.rules:
        for name in rule.prefer:
            if name in idle:
                yield f"rule {rule.name} prefers {name}, whose weight is 0: it gets no tasks"
        if rule.residency and idle.issuperset(fleet.inside(rule.residency)):
            yield f"rule {rule.name} fences to regions of weight 0: its tasks are refused"


def _distant_receivers(fleet: Fleet) -> Iterator[str]:
    if not any(rule.residency for rule in fleet.rules):
        return
    for name, policy in {"default": fleet.default_queue, **fleet.queues}.items():
        hook = policy.on_dead
        inherited = name != "default" and hook == fleet.default_queue.on_dead
        if isinstance(hook, Webhook) and not hook.residency and not inherited:
            yield (
                f"the webhook of queue {name} says no residency: it hears of fenced tasks, too, by "
                "id, queue and name; write the groups that its receiver is in"
            )


def _unseen_durability(fleet: Fleet) -> Iterator[str]:
    """No file can say how a Redis is run."""
    by_durability: dict[str, list[str]] = {}
    for name, durability in fleet.durable.items():
        by_durability.setdefault(durability, []).append(name or "default")
    for durability, names in by_durability.items():
        queues = f"queue{'s' if len(names) > 1 else ''} {', '.join(names)}"
        yield (
            f"durability {durability} of {queues} needs {NEEDS[durability]}, which this file "
            "cannot tell: routers ask each region's Redis, and send such tasks to none that cannot"
        )


NEEDS = {
    "fsync": "an append-only file, and Redis 7.2 or appendfsync always",
    "replica": "a replica of each primary",
}


def _narrow_fleets(fleet: Fleet) -> Iterator[str]:
    pools = {"of the fleet": tuple(fleet.regions)}
    pools |= {f"inside [{group}]": fleet.inside((group,)) for group in sorted(fleet.groups)}
    for where, names in pools.items():
        weights = {name: fleet.regions[name].weight for name in names}
        largest = max(weights, key=weights.__getitem__)
        rest = sum(weights.values()) - weights[largest]
        if rest and (load := 1 + weights[largest] / rest) > _MAX_LOAD:
            yield (
                f"if {largest} is lost, the other regions {where} get {load:.1f} times their "
                f"normal load (by weight); above {_MAX_LOAD:.1f} times they are expected to fall "
                "behind"
            )


def _unknown_distances(fleet: Fleet) -> Iterator[str]:
    """Who gives no round trip at all is content with measured ones; a gap is an oversight."""
    missing = [
        f"{one} and {other}"
        for one, other in combinations(fleet.regions, 2)
        if (one, other) not in fleet.rtt_ms
    ]
    if fleet.rtt_ms and missing:
        further = len(missing) - _NAMED
        more = f", and {further} more" if further > 0 else ""
        yield (
            f"rtt says nothing of {', of '.join(missing[:_NAMED])}{more}: taken for "
            f"{duration_text(UNSEEN_RTT_MS)} until it is measured"
        )


def _odd_numbers(fleet: Fleet) -> Iterator[str]:
    health, band_ms = fleet.health, fleet.steering.band_min_ms
    if health.stale_after_ms < health.interval_ms:
        yield (
            f"health.stale_after ({duration_text(health.stale_after_ms)}) is shorter than "
            f"health.interval ({duration_text(health.interval_ms)}): every region counts as "
            "degraded between two probes"
        )
    for name, region in fleet.regions.items():
        if region.limits.max_wait_ms < band_ms:
            yield (
                f"limits.max_wait of {name} ({duration_text(region.limits.max_wait_ms)}) is "
                f"shorter than steering.band_min ({duration_text(band_ms)}): it refuses tasks "
                "before they would rather go elsewhere"
            )
