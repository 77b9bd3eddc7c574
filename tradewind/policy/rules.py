"""Which rule a task falls under, and what that leaves open: fence, wishes, key. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

from tradewind.errors import NoRegionPermitted
from tradewind.fleet import Affinity, AffinityMode, Fleet, Match, Rule
from tradewind.task import Draft
from tradewind.view import FenceAuthors

DEFAULT_RULE = "default"  # what the name says when no rule matches
UNSERVED = "unserved"  # what a decision says instead of a rule: no live worker runs the task
ON_DEAD = "on_dead"  # what a task says that tells of a dead one: no rule chose its region
OWN_RULE_NAMES = frozenset({DEFAULT_RULE, UNSERVED, ON_DEAD})
_NO_RULE = Rule(DEFAULT_RULE)
_OWN_KEY = Affinity()  # an affinity_key counts without any rule
_LABEL = "label:"


@dataclass(frozen=True, slots=True)
class Keyed:
    """The value that keeps a task near its like."""

    key: bytes
    mode: AffinityMode


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the rules make of a task. `fence` (sorted groups, any of them) may never be crossed."""

    fence: tuple[str, ...]
    rule_name: str
    prefer: tuple[str, ...] = ()
    affinity: Keyed | None = None
    pin: str = ""


def resolve(draft: Draft, fleet: Fleet) -> Resolved:
    """Apply the first matching rule. Raises NoRegionPermitted if no fence can hold both sides.

    A rule without `affinity` leaves the task's own affinity_key in force, as preferred.
    """
    rule = matching(draft, fleet)
    return Resolved(
        fence=narrow(rule, draft.residency, fleet),
        rule_name=rule.name,
        prefer=rule.prefer,
        affinity=_keyed(rule.affinity or _OWN_KEY, draft),
        pin=draft.pin_region,
    )


def matching(draft: Draft, fleet: Fleet) -> Rule:
    """Return the first rule that matches, or an empty one called `default`."""
    return next((rule for rule in fleet.rules if _matches(rule.match, draft)), _NO_RULE)


def narrow(by: Rule, own: tuple[str, ...], fleet: Fleet) -> tuple[str, ...]:
    """Return groups that lie inside both fences, so that a task can narrow a rule, never widen it.

    A stored fence is a list of groups, any of which will do, but regions may be in several groups.
    So an intersection is given by the groups that lie wholly inside it: those that either side
    names, and only if these leave a permitted region out, others. What no group covers is refused
    rather than permitted. Raises NoRegionPermitted if nothing is left.
    """
    rule = by.residency
    if not rule or not own:
        fence = tuple(sorted({*rule, *own}))
        if fence and not fleet.inside(fence):
            author = f"rule {by.name}" if rule else "the task"
            raise NoRegionPermitted(f"no region is inside {listed(fence)}, the fence of {author}")
        return fence
    permitted = set(fleet.inside(rule)).intersection(fleet.inside(own))
    covers = {group: set(fleet.inside((group,))) for group in fleet.groups}
    within = {group for group, names in covers.items() if names <= permitted}
    fence = within.intersection((*rule, *own))
    if set[str]().union(*(covers[group] for group in fence)) != permitted:
        fence = within
    if not fence:
        raise NoRegionPermitted(
            f"{listed(rule)} by rule {by.name} and {listed(own)} by the task leave no residency "
            "group; give the task a group that the rule permits"
        )
    return tuple(sorted(fence))


def authors(draft: Draft, fleet: Fleet) -> FenceAuthors:
    """Say who drew the fence of `draft`, that of `resolve`, whether or not it leaves anything."""
    rule = matching(draft, fleet)
    fencing = rule.name if rule.residency else ""
    return FenceAuthors(fencing, rule.residency, draft.residency, draft.pin_region)


def listed(groups: Iterable[str]) -> str:
    """Spell groups as regions.yaml does."""
    return f"[{', '.join(groups)}]"


def _keyed(affinity: Affinity, draft: Draft) -> Keyed | None:
    if affinity.key.startswith(_LABEL):
        value = draft.labels.get(affinity.key.removeprefix(_LABEL), "")
    else:
        value = draft.tenant if affinity.key == "tenant" else draft.affinity_key
    return Keyed(value.encode(), affinity.mode) if value else None


def _matches(match: Match, draft: Draft) -> bool:
    return (
        _any_of(match.names, draft.name)
        and _any_of(match.queues, draft.queue)
        and _any_of(match.tenants, draft.tenant)
        and (not match.labels or _labelled(match.labels, draft.labels))
    )


def _labelled(globs: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(key in labels and _any_of((glob,), labels[key]) for key, glob in globs.items())


def _any_of(globs: tuple[str, ...], text: str) -> bool:
    return not globs or _compiled(globs).match(text) is not None


@lru_cache(maxsize=4096)  # far above the globs of any one file; an old file's fade out
def _compiled(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)))
