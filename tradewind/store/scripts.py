"""The Lua scripts as values: their headers are read as data, so callers pass names, not slots.

A header names KEYS[n] and ARGV[n] for the whole call, and with EACH what is repeated for every
item of a batch. `-- @include name` pulls in lua/lib/name.lua. States leave as letters.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib.resources import files

from tradewind.store.letters import shortened

_SLOT = re.compile(r"^-- (KEYS|ARGV)\[(\d+)\] (\w+)", re.MULTILINE)
_EACH = re.compile(r"^-- EACH (KEYS|ARGV) (\w+)", re.MULTILINE)
_INCLUDE = re.compile(r"^-- @include (.+)$", re.MULTILINE)
_RETURNS = re.compile(r"^-- RETURNS (.+)$", re.MULTILINE)
_TAG = re.compile(r'\{"(\w+)"')

Arg = str | bytes | int
Item = tuple[tuple[str, ...], tuple[Arg, ...]]


@dataclass(frozen=True, slots=True)
class Script:
    """One script: name, full source, SHA-1, and the slots its header lists, in order."""

    name: str
    source: bytes
    sha: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    each_keys: tuple[str, ...]
    each_args: tuple[str, ...]
    tags: frozenset[str]
    writes: bool

    def parts(
        self, keys: Mapping[str, str], args: Mapping[str, Arg], items: Iterable[Item] = ()
    ) -> list[Arg]:
        """KEYS count, keys and arguments of a call. Raises KeyError for a slot not given.

        Items are positional, in the order of the header's EACH lines: they are the hot path.
        """
        flat_keys: list[Arg] = []
        flat_args: list[Arg] = []
        for item_keys, item_args in items:
            flat_keys += item_keys
            flat_args += item_args
        return self.joined(keys, args, flat_keys, flat_args)

    def joined(
        self,
        keys: Mapping[str, str],
        args: Mapping[str, Arg],
        item_keys: Sequence[Arg],
        item_args: Sequence[Arg],
    ) -> list[Arg]:
        """The same for items whose keys and arguments the caller has put in a row already."""
        return [
            len(self.keys) + len(item_keys),
            *[keys[name] for name in self.keys],
            *item_keys,
            *[args[name] for name in self.args],
            *item_args,
        ]


def names() -> tuple[str, ...]:
    """Names of all scripts, sorted."""
    folder = files("tradewind.store") / "lua"
    return tuple(sorted(f.name[:-4] for f in folder.iterdir() if f.name.endswith(".lua")))


@cache
def load(name: str) -> Script:
    """Read lua/NAME.lua. Raises ValueError if its header breaks the rules."""
    folder = files("tradewind.store") / "lua"
    raw = (folder / f"{name}.lua").read_text(encoding="utf-8")
    shebang, _, body = raw.partition("\n")
    if not shebang.startswith("#!lua"):
        message = f"{name}.lua: the first line must be #!lua and its flags"
        raise ValueError(message)
    included = [lib for line in _INCLUDE.findall(raw) for lib in line.split()]
    libs = [(folder / "lib" / f"{lib}.lua").read_text(encoding="utf-8") for lib in included]
    source = shortened("\n".join([shebang, *libs, body])).encode()
    return Script(
        name=name,
        source=source,
        sha=sha1(source, usedforsecurity=False).hexdigest(),
        keys=_slots(name, raw, "KEYS"),
        args=_slots(name, raw, "ARGV"),
        each_keys=tuple(slot for kind, slot in _EACH.findall(raw) if kind == "KEYS"),
        each_args=tuple(slot for kind, slot in _EACH.findall(raw) if kind == "ARGV"),
        tags=frozenset(_TAG.findall(" ".join(_RETURNS.findall(raw)))),
        writes="no-writes" not in shebang,
    )


def _slots(name: str, raw: str, kind: str) -> tuple[str, ...]:
    found = [(int(n), slot) for k, n, slot in _SLOT.findall(raw) if k == kind]
    if [n for n, _ in found] != list(range(1, len(found) + 1)):
        message = f"{name}.lua: {kind} slots must be listed once each, from 1"
        raise ValueError(message)
    return tuple(slot for _, slot in found)
