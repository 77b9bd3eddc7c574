"""Which version of the document is in force: single-decree consensus, seen from all sides.

Every region is an acceptor of one register (CASPaxos, arXiv 1802.07000). It promises an epoch to
one change, and accepts a version unless it has promised a higher epoch, so at most one version is
ever accepted by a majority in an epoch, and the next one is built on it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tradewind.control.values import EMPTY, NEVER, Control, Order, RegionState, Stamp

_STRICTNESS: Final[Mapping[RegionState, int]] = {"ACTIVE": 0, "CORDONED": 1, "DRAINING": 2}
#: Changes that a document remembers. A change is tried a few times within seconds, and is out of
#: it only if so many others came between its tries.
REMEMBERED: Final = 32


@dataclass(frozen=True, slots=True)
class Standing:
    """The version that a reader acts on. `sure`: a majority held it, or it was forced."""

    control: Control
    sure: bool


UNKNOWN: Final = Standing(EMPTY, sure=False)


def is_majority(of: Collection[str], configured: Collection[str]) -> bool:
    """Whether these regions are more than half of the configured ones."""
    return 2 * len(set(of).intersection(configured)) > len(configured)


def in_force(seen: Mapping[str, Control], configured: Collection[str], last: Standing) -> Standing:
    """Return the version to act on.

    `seen`: what each region held when it was last heard, EMPTY if it held none. That may be long
    ago: what a majority has accepted once stays agreed. `last`: what this reader acted on so far.

    The highest of these counts: what a majority holds, what is forced, and `last` if it was sure,
    also if nobody holds it any more: a Redis may have lost its last second. If there is none of
    them, the highest version that is to be seen.
    """
    here = {name: control for name, control in seen.items() if name in configured}
    holders: dict[Stamp, set[str]] = {}
    for name, control in here.items():
        holders.setdefault(control.stamp, set()).add(name)
    sure = [c for c in here.values() if c.forced or is_majority(holders[c.stamp], configured)]
    if last.sure:
        sure.append(last.control)
    if sure:
        return Standing(_highest(sure), sure=True)
    return Standing(_highest(here.values()), sure=False)


def built_on(promised: Iterable[Control], last: Standing) -> Control:
    """Return the version that a change must be applied to: the highest that was promised on.

    Or `last`, if it was sure and they have lost it.
    """
    return _highest([*promised, last.control] if last.sure else promised)


def next_version(base: Control, changed: Control, stamp: Stamp, *, forced: bool = False) -> Control:
    """Return `changed`, which was made of `base`, as the version `stamp`."""
    recent = (*base.recent, stamp.change_id)[-REMEMBERED:]
    return replace(changed, stamp=stamp, forced=forced, recent=recent)


def above(stamps: Iterable[Stamp]) -> int:
    """Return an epoch that is higher than all of these."""
    return max((stamp.epoch for stamp in stamps), default=0) + 1


def laggards(seen: Mapping[str, Control], configured: Iterable[str], now: Standing) -> list[str]:
    """Return the regions that hold an older version than the one in force."""
    mark = now.control.stamp
    return [name for name in configured if name in seen and seen[name].stamp < mark]


def overruled(
    seen: Mapping[str, Control], configured: Collection[str], now: Standing
) -> Control | None:
    """Return a version that a majority holds and that the one in force was not made from.

    Both were agreed on, which takes Redises that were set back after the first. None: there is
    none. One that is too old for `recent` to tell is taken for one.
    """
    held = {name: control.stamp for name, control in seen.items() if name in configured}
    for control in seen.values():
        stamp = control.stamp
        is_known = stamp == NEVER or stamp.change_id in now.control.recent
        if now.sure and stamp < now.control.stamp and not is_known:
            holders = [name for name, of in held.items() if of == stamp]
            if is_majority(holders, configured):
                return control
    return None


def undecided(seen: Mapping[str, Control], configured: Collection[str], now: Standing) -> bool:
    """Whether some region holds a version that is not in force: its change may have been given up.

    Whoever carries it on brings it into force, or makes sure that it never is.
    """
    mark = now.control.stamp
    if not now.sure:
        return mark > NEVER
    return any(seen[name].stamp > mark for name in configured if name in seen)


def obeyed(now: Standing, own: Control | None) -> Control:
    """Return what a worker keeps to: what is in force, and what is stricter in its own Redis.

    That may be a change on its way: it is known here before it is known to be in force.
    """
    if own is None or own.stamp <= now.control.stamp:
        return now.control
    names = {**own.regions, **now.control.regions}
    orders = {
        name: _stricter(own.regions.get(name), now.control.regions.get(name)) for name in names
    }
    pauses = {**own.pauses, **now.control.pauses}
    return replace(own, regions=orders, pauses=pauses, evacuations=now.control.evacuations)


def _stricter(first: Order | None, second: Order | None) -> Order:
    one, other = first or Order("ACTIVE"), second or Order("ACTIVE")
    return one if _STRICTNESS[one.state] >= _STRICTNESS[other.state] else other


def _highest(controls: Iterable[Control]) -> Control:
    return max(controls, key=lambda control: control.stamp, default=EMPTY)
