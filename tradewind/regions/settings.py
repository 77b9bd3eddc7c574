"""What a new regions.yaml says otherwise than the old one, key by key, in the words of the file."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, cast

from tradewind.fleet import Fleet, Region, Rule
from tradewind.policy.rules import listed
from tradewind.regions.advice import NEEDS
from tradewind.regions.changes import window_ms
from tradewind.regions.units import duration_text, share_text

_SHARES: Final = frozenset({"band", "max_spill_in"})
# Named elsewhere in a diff; of addresses and receivers nothing is quoted, they may hold secrets.
_TOLD: Final = frozenset({"name", "redis"})
_HIDDEN: Final = frozenset({"on_dead"})
_SECTIONS: Final = ("failover", "steering", "health")

_NOTHING: Final[Mapping[str, str]] = {}

Flat = dict[str, Any]  # by the path of the key


def settings(old: Fleet, new: Fleet) -> list[str]:
    """Say each change of a key, regions that come and go, and what that means for them."""
    return [
        *_regions(old, new),
        *_rules(old.rules, new.rules),
        *_queues(old, new),
        *_lines("", _rest(old), _rest(new)),
    ]


def _regions(old: Fleet, new: Fleet) -> Iterator[str]:
    window = duration_text(window_ms(old, new))
    for name, region in new.regions.items():
        before = old.regions.get(name)
        if before is None:
            later = f", and marked so: take `new` away one window ({window}) later"
            yield f"regions.{name} is new{later if region.new else ''}"
        else:
            means = {"weight": _weight(before, region, window), "new": _mark(region, window)}
            yield from _lines(f"regions.{name}.", _flat(before), _flat(region), means)
    for name, region in old.regions.items():
        if name not in new.regions and not region.weight:
            yield (
                f"regions.{name} leaves, with weight 0: right if it has had that for one window "
                f"({window}), and nothing is left in it"
            )


def _weight(before: Region, after: Region, window: str) -> str:
    if after.weight:
        return "" if before.weight else "; it takes new tasks again"
    return (
        "; it takes no new tasks but pinned ones and those for which failover.order names it, and "
        f"may leave the file one window ({window}) later"
    )


def _mark(after: Region, window: str) -> str:
    if after.new:
        return f"; take it away one window ({window}) later"
    return f"; right if it has been marked for one window ({window})"


def _rules(old: Sequence[Rule], new: Sequence[Rule]) -> Iterator[str]:
    before, after = ({rule.name: rule for rule in rules} for rules in (old, new))
    for name in dict.fromkeys((*after, *before)):
        if name not in before or name not in after:
            yield f"rules.{name} is {'new' if name in after else 'gone'}"
        else:
            was, now = _flat(before[name]), _flat(after[name])
            # Which regions a fence lets in or shuts out is said elsewhere.
            was["residency"] = now["residency"]
            yield from _lines(f"rules.{name}.", was, now)
    kept = [
        [name for name in rules if name in before and name in after] for rules in (before, after)
    ]
    if kept[0] != kept[1]:
        yield f"rules: the first that matches wins, in the order {' > '.join(after)}"


def _queues(old: Fleet, new: Fleet) -> Iterator[str]:
    """A queue that a file does not name is as its default; what changes there is said once."""

    def by_name(fleet: Fleet) -> Callable[[str], Flat]:
        return lambda name: _flat(fleet.queue(name))

    before, after = by_name(old), by_name(new)
    usual = _flat(old.default_queue), _flat(new.default_queue)
    yield from _lines("queues.default.", *usual, _durability(*usual))
    for name in sorted((old.queues.keys() | new.queues.keys()) - {"default"}):
        was, now = before(name), after(name)
        for key in was.keys() & now.keys():
            if (was[key], now[key]) == (usual[0].get(key), usual[1].get(key)):
                del was[key], now[key]
        yield from _lines(f"queues.{name}.", was, now, _durability(was, now))


def _durability(before: Flat, after: Flat) -> Mapping[str, str]:
    """Say what a region needs for a queue that is to survive more."""
    now = after.get("durability")
    if now == before.get("durability") or now not in NEEDS:
        return _NOTHING
    return {"durability": f"; a region needs {NEEDS[now]}, else it is refused for it"}


def _rest(fleet: Fleet) -> Flat:
    found: Flat = {"panic.mode": fleet.panic_mode}
    for section in _SECTIONS:
        found |= _flat(getattr(fleet, section), f"{section}.")
    place = {name: number for number, name in enumerate(fleet.regions)}
    for (one, other), ms in fleet.rtt_ms.items():
        # The same both ways is said once.
        if place[one] < place[other] or fleet.rtt_ms.get((other, one)) != ms:
            found[f"rtt.{one}.{other}"] = duration_text(ms)
    return found


def _lines(
    prefix: str,
    before: Flat,
    after: Flat,
    means: Mapping[str, str] = _NOTHING,
) -> Iterator[str]:
    for key in dict.fromkeys((*after, *before)):
        was, now = before.get(key), after.get(key)
        if was != now:
            yield f"{prefix}{key}: {_change(key, was, now)}{means.get(key, '')}"


def _change(key: str, was: object, now: object) -> str:
    if key in _HIDDEN:
        return (
            "another receiver" if was and now else "a receiver" if now else "no receiver any more"
        )
    return f"{_said(was)} -> {_said(now)}"


def _said(value: object) -> str:
    return "(not said)" if value is None else str(value)


def _flat(value: Any, prefix: str = "") -> Flat:
    """Give every key below a value by its path, as the file spells it."""
    found: Flat = {}
    for each in fields(value):
        inner: Any = getattr(value, each.name)
        if each.name in _TOLD:
            continue
        if each.name in _HIDDEN:
            found[prefix + each.name] = inner
        elif inner is None:
            continue
        elif is_dataclass(inner):
            found |= _flat(inner, f"{prefix}{each.name}.")
        elif isinstance(inner, Mapping):
            members = cast("Mapping[str, Any]", inner)
            found |= {f"{prefix}{each.name}.{key}": _spelt("", one) for key, one in members.items()}
        else:
            key, text = _unit(each.name, inner)
            found[prefix + key] = text
    return found


def _unit(name: str, value: Any) -> tuple[str, str]:
    if name.endswith("_ms"):
        return name.removesuffix("_ms"), duration_text(value)
    if name.endswith("_s"):
        return name.removesuffix("_s"), duration_text(value * 1_000)
    return name, _spelt(name, value)


def _spelt(name: str, value: Any) -> str:
    if name in _SHARES:
        return share_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        members = cast("tuple[str, ...]", value)
        return listed(members)
    return f"{value:g}" if isinstance(value, float) else str(value)
