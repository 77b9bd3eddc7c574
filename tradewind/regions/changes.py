"""What a new regions.yaml changes whatever is submitted: fences, and where repeats are known."""

from collections.abc import Iterator
from dataclasses import dataclass

from tradewind.fleet import Fleet, RedisTarget, Region
from tradewind.limits import REQUEST_ID_WINDOW_MS
from tradewind.policy.rules import listed
from tradewind.regions.targets import stand_in
from tradewind.regions.units import duration_text

Fence = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FenceChange:
    """A rule whose tasks may go elsewhere than before; regions that the new file has only."""

    rule: str
    before: str  # the fence, as the file spells it
    after: str
    widened: tuple[str, ...]  # regions
    narrowed: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Say it."""
        spelt = self.after if self.before == self.after else f"{self.before} -> {self.after}"
        said = [f"now lets in {', '.join(self.widened)}"] if self.widened else []
        said += [f"now shuts out {', '.join(self.narrowed)}"] if self.narrowed else []
        return f"rule {self.rule} {spelt}: {', '.join(said)}"


def fences(old: Fleet, new: Fleet) -> list[FenceChange]:
    """Compare rules by name, in the order of the new file, then those that are gone."""
    before = {rule.name: rule.residency for rule in old.rules}
    after = {rule.name: rule.residency for rule in new.rules}
    found: list[FenceChange] = []
    for name in dict.fromkeys((*after, *before)):
        was, now = before.get(name, ()), after.get(name, ())
        if not was and not now:
            continue
        inside_before, inside_after = set(old.inside(was)), set(new.inside(now))
        change = FenceChange(
            rule=name,
            before=_spelt(name in before, was),
            after=_spelt(name in after, now),
            widened=tuple(sorted(inside_after - inside_before)),
            narrowed=tuple(sorted((inside_before - inside_after).intersection(new.regions))),
        )
        if change.widened or change.narrowed:
            found.append(change)
    return found


def steps(old: Fleet, new: Fleet) -> list[str]:
    """Say which changes of the set of regions forget repeats, or let them run twice.

    docs/decisions/0005: a key is kept in the first lasting region of its order and in the first of
    all. So routers with either file have a home in common if one of these sets stays, or is what
    the other one was. That holds inside each fence by itself.
    """
    wait = f"for one window ({duration_text(window_ms(old, new))})"
    found: dict[tuple[str, str], str] = {}  # what is said of the whole fleet is said once
    for fence in _scopes(old, new):
        before, after = _Kept.of(old, fence), _Kept.of(new, fence)
        if before.has_home_in_common(after):
            continue
        said: dict[tuple[str, str], str] = {}
        for name in sorted(after.lasting - before.every):
            said[name, "comes"] = _comes(new.regions[name], fence, wait)
        for name in sorted(before.lasting - after.every):
            said[name, "leaves"] = _leaves(old.regions[name], fence, wait)
        if not said:
            moved = sorted((before.every ^ after.every) | (before.lasting ^ after.lasting))
            where = f" in {listed(fence)}" if fence else ""
            each = (
                f"{' and '.join(moved)} change{where} at once: take one after the other, a window "
                "apart"
            )
            said = {(name, "changes"): each for name in moved}
        for key, sentence in said.items():
            found.setdefault(key, sentence)
    return list(dict.fromkeys(found.values()))


def addresses(old: Fleet, new: Fleet) -> list[str]:
    """Say which regions have another Redis: what is stored in the old one does not follow."""
    return [
        f"{name} has another Redis: tasks that the old one holds are not in the new one"
        for name, region in new.regions.items()
        if name in old.regions
        and stand_in(name) not in {old.regions[name].redis, region.redis}
        and _elsewhere(old.regions[name].redis, region.redis)
    ]


def window_ms(old: Fleet, new: Fleet) -> int:
    """Return how long the longest queue recognises a repeat, by either file."""
    policies = (
        policy
        for fleet in (old, new)
        for policy in (fleet.default_queue, *fleet.queues.values())
        if policy.dedup.by != "none" and policy.dedup.scope == "global"
    )
    return max((policy.dedup.window_ms for policy in policies), default=REQUEST_ID_WINDOW_MS)


def _comes(region: Region, fence: Fence, wait: str) -> str:
    comes = f"{region.name} enters {listed(fence)}" if fence else f"{region.name} is new"
    if region.is_lasting:
        return f"{comes}: first mark it `new: true` {wait}"
    return f"{comes}, and no region there lasts: first give one a weight, and no `new`, {wait}"


def _leaves(region: Region, fence: Fence, wait: str) -> str:
    leaves = f"{region.name} leaves {listed(fence)}" if fence else f"{region.name} leaves"
    unless = "" if fence else ", unless it is lost for good"
    if region.is_lasting:
        return f"{leaves} with a weight: first give it 0 {wait}{unless}"
    first = "first give one that stays a weight, and no `new`,"
    return f"{leaves}, and no region there lasts: {first} {wait}{unless}"


def _spelt(is_there: bool, fence: Fence) -> str:  # noqa: FBT001 - of its two callers alone
    return (listed(fence) if fence else "without a fence") if is_there else "(not there)"


def _scopes(old: Fleet, new: Fleet) -> Iterator[Fence]:
    """Give every set of regions that keeps keys of its own, the whole fleet first."""
    yield ()
    named = {rule.residency for fleet in (old, new) for rule in fleet.rules if rule.residency}
    yield from sorted({(group,) for group in old.groups | new.groups} | named)


@dataclass(frozen=True, slots=True)
class _Kept:
    """Which regions of a fence keep keys."""

    every: frozenset[str]
    lasting: frozenset[str]

    @classmethod
    def of(cls, fleet: Fleet, fence: Fence) -> "_Kept":
        every = frozenset(fleet.inside(fence))
        lasting = frozenset(name for name in every if fleet.regions[name].is_lasting)
        # Where none is lasting, the first of all keeps a key alone (admission/identity.py).
        return cls(every, lasting or every)

    def has_home_in_common(self, other: "_Kept") -> bool:
        """Whether each key has one, or there is nothing to find."""
        if not self.every or not other.every:
            return True
        return not {self.every, self.lasting}.isdisjoint({other.every, other.lasting})


def _elsewhere(old: RedisTarget, new: RedisTarget) -> bool:
    if (old.service, old.database) != (new.service, new.database):
        return True
    # Of a cluster, or of sentinels, one node that both name is enough to be the same.
    return set(old.nodes).isdisjoint(new.nodes)
