"""What a new regions.yaml would change, added up."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tradewind.cli.policy_routes import Pair
from tradewind.fleet import Fleet
from tradewind.policy.rules import listed
from tradewind.regions.changes import FenceChange, addresses, fences, steps, window_ms
from tradewind.regions.settings import settings
from tradewind.regions.units import duration_text

REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Move:
    """Routes of a kind that end elsewhere: another region, or `refused`."""

    origin: str  # where they went
    target: str
    routes: int
    example: str
    why: str  # of a refusal


@dataclass(frozen=True, slots=True)
class Report:
    """All of it. `alarms` is what somebody should look at before the file goes out."""

    routes: int
    stay: int  # refused by both counts as well
    moved: tuple[Move, ...]
    refused_now: tuple[Move, ...]
    accepted_now: tuple[Move, ...]
    fences: tuple[FenceChange, ...]
    opened: tuple[str, ...]  # sentences: tasks that fall under another fence than before
    steps: tuple[str, ...]
    addresses: tuple[str, ...]
    forgotten: str  # a sentence, or empty
    settings: tuple[str, ...]  # every key that says otherwise, and regions that come and go
    alarms: tuple[str, ...]


def compared(old: Fleet, new: Fleet, pairs: Iterable[Pair]) -> Report:
    """Compare two files, and where the tasks of `pairs` go by each."""
    every = list(pairs)
    changed = [pair for pair in every if pair.before.region != pair.after.region]
    moved = _moves(changed, lambda pair: bool(pair.before.region and pair.after.region))
    refused_now = _moves(changed, lambda pair: not pair.after.region)
    accepted_now = _moves(changed, lambda pair: not pair.before.region)
    fence_changes = tuple(fences(old, new))
    opened = _opened(every, {change.rule for change in fence_changes})
    forgotten = _forgotten(every, window_ms(old, new))
    leaps, moved_away = tuple(steps(old, new)), tuple(addresses(old, new))
    alarms = {
        "a task is refused that was not": refused_now,
        "a fence lets more regions in": opened or any(each.widened for each in fence_changes),
        "the set of regions changes by more than a step": leaps,
        "a region has another Redis": moved_away,
        "repeats are forgotten": forgotten,
    }
    return Report(
        routes=len(every),
        stay=len(every) - len(changed),
        moved=moved,
        refused_now=refused_now,
        accepted_now=accepted_now,
        fences=fence_changes,
        opened=opened,
        steps=leaps,
        addresses=moved_away,
        forgotten=forgotten,
        settings=tuple(settings(old, new)),
        alarms=tuple(text for text, found in alarms.items() if found),
    )


def _moves(changed: Iterable[Pair], belongs: Callable[[Pair], bool]) -> tuple[Move, ...]:
    found: dict[tuple[str, str], list[Pair]] = {}
    for pair in filter(belongs, changed):
        way = (pair.before.region or REFUSED, pair.after.region or REFUSED)
        found.setdefault(way, []).append(pair)
    moves = [
        Move(origin, target, len(all_), all_[0].label, all_[0].after.message)
        for (origin, target), all_ in found.items()
    ]
    return tuple(sorted(moves, key=lambda move: -move.routes))


def _opened(pairs: Iterable[Pair], told: set[str]) -> tuple[str, ...]:
    """Say which tasks another rule has now, or none; of a rule that changed it is said already."""
    counts: Counter[tuple[str, str, str]] = Counter()
    examples: dict[tuple[str, str, str], str] = {}
    for pair in pairs:
        if not pair.opened or pair.before.rule == pair.after.rule in told:
            continue
        before = f"rule {pair.before.rule} {listed(pair.before.fence)}"
        after = f"rule {pair.after.rule}" + (
            f" {listed(pair.after.fence)}" if pair.after.fence else " without a fence"
        )
        key = (before, after, ", ".join(sorted(pair.opened)))
        counts[key] += 1
        examples.setdefault(key, pair.label)
    return tuple(
        f"{before} -> {after}: {routes(count)} may now go to {regions}, too, such as "
        f"{examples[before, after, regions]}"
        for (before, after, regions), count in counts.most_common()
    )


def _forgotten(pairs: Iterable[Pair], window: int) -> str:
    found = [pair for pair in pairs if pair.forgotten]
    if not found:
        return ""
    return (
        f"{routes(len(found))} with an idempotency key or payload that was submitted before: a "
        f"repeat within {duration_text(window)} of the change may run again, such as "
        f"{found[0].label}"
    )


def routes(count: int) -> str:
    """`1 route`, `2 routes`."""
    return f"{count} route{'' if count == 1 else 's'}"
