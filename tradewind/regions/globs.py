"""What can be said of two globs without a text to match: certain, or not at all.

Globs are those of `fnmatch`, as rules use them (policy/rules.py): `*`, `?`, `[abc]`, `[!a-z]`.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase, translate

from tradewind.fleet import Match

_META = frozenset("*?[")
# What stands for the wildcards of a glob while another one is held against it as a text. They are
# of a private use area, so no name of anybody's holds them.
_MANY, _ONE = "\ue000", "\ue001"


def is_plain(glob: str) -> bool:
    """Whether it matches one text alone, itself."""
    return _META.isdisjoint(glob)


def covers(wide: str, narrow: str) -> bool:
    """Whether whatever `narrow` matches `wide` matches, too. False may mean: cannot tell."""
    if wide == narrow or (wide and not wide.strip("*")):
        return True
    if is_plain(narrow):
        return fnmatchcase(narrow, wide)
    # A set in square brackets may exclude, and what it excludes has no stand-in.
    if "[" in wide:
        return False
    pattern = "".join(
        ".*" if char == "*" else f"[^{_MANY}]" if char == "?" else re.escape(char) for char in wide
    )
    return re.fullmatch(pattern, _stood_in(narrow), re.DOTALL) is not None


def may_meet(one: str, other: str) -> bool:
    """Whether some text may match both. True may mean: cannot tell."""
    if is_plain(one):
        return fnmatchcase(one, other)
    if is_plain(other):
        return fnmatchcase(other, one)
    heads = sorted((_head(one), _head(other)), key=len)
    tails = sorted((_head(one[::-1]), _head(other[::-1])), key=len)
    return heads[1].startswith(heads[0]) and ("[" in one + other or tails[1].startswith(tails[0]))


def match_covers(wide: Match, narrow: Match) -> bool:
    """Whether every task that `narrow` is for `wide` is for, too. False may mean: cannot tell."""
    parts_covered = all(
        not wide_part
        or (
            narrow_part
            and all(any(covers(glob, each) for glob in wide_part) for each in narrow_part)
        )
        for wide_part, narrow_part in _parts(wide, narrow)
    )
    return parts_covered and all(
        key in narrow.labels and covers(glob, narrow.labels[key])
        for key, glob in wide.labels.items()
    )


def matches_may_meet(one: Match, other: Match) -> bool:
    """Whether some task may be in both. True may mean: cannot tell."""
    return all(
        any(may_meet(a, b) for a in part for b in other_part)
        for part, other_part in _parts(one, other)
        if part and other_part
    ) and all(
        may_meet(glob, other.labels[key]) for key, glob in one.labels.items() if key in other.labels
    )


def oddity(glob: str) -> str:
    """Return what is odd about a glob's square brackets; empty if nothing is."""
    rest = glob
    while (start := rest.find("[")) >= 0:
        end = _end_of_set(rest, start)
        if end < 0:
            return "its [ is not closed, so it stands for itself"
        if not _matches_anything(rest[start : end + 1]):
            return f"{rest[start : end + 1]} matches nothing"
        rest = rest[end + 1 :]
    return ""


def all_globs(match: Match) -> Iterable[str]:
    """Give every glob of a rule's condition."""
    yield from (*match.names, *match.queues, *match.tenants, *match.labels.values())


def _parts(one: Match, other: Match) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    return (
        (one.names, other.names),
        (one.queues, other.queues),
        (one.tenants, other.tenants),
    )


def _end_of_set(glob: str, start: int) -> int:
    """Find the ] of a set as fnmatch does: the first place may hold one that is meant."""
    first = start + 2 if glob[start + 1 : start + 2] == "!" else start + 1
    return glob.find("]", first + 1)


def _matches_anything(glob: str) -> bool:
    """Whether a set has a member: `[z-a]` has none."""
    pattern = re.compile(translate(glob))
    return any(pattern.match(chr(code)) for code in range(0x250)) or not glob.isascii()


def _stood_in(glob: str) -> str:
    found: list[str] = []
    at = 0
    while at < len(glob):
        char, end = glob[at], -1
        if char == "[":
            end = _end_of_set(glob, at)
        found.append(_MANY if char == "*" else _ONE if char == "?" or end >= 0 else char)
        at = max(at, end) + 1
    return "".join(found)


def _head(glob: str) -> str:
    """What every match begins with (or, of a glob backwards, ends with)."""
    return re.split(r"[*?\[\]]", glob, maxsplit=1)[0]
