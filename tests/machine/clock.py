"""Time that stands still until a machine moves it: in the scripts, and in what Redis lets expire.

Only a test build of the scripts reads it: the one function by which they learn the time is
replaced. TTLs are Redis's own, so they are cut short by what has passed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha1
from typing import Any

from tradewind.store.letters import shortened
from tradewind.store.scripts import Script, load

START_MS = 1_900_000_000_000  # in the year 2030
KEY = "test:now_us"
_REAL = "local t = redis.call('TIME')\n  return tonumber(t[1]) * 1000000 + tonumber(t[2])"
_OURS = f"return tonumber(redis.call('GET', '{KEY}'))"
_LONGER_THAN_ANY_TEST_MS = 10**10


@dataclass(frozen=True, slots=True)
class Edit:
    """One change in one script: `was` stands there exactly once."""

    script: str
    was: str
    becomes: str

    def check(self) -> None:
        """Raises AssertionError if the script has changed so that the edit no longer fits."""
        found = load(self.script).source.decode().count(shortened(self.was))
        assert found == 1, f"{self.script}: {self.was!r} stands there {found} times, not once"


def build(edit: Edit | None = None) -> Callable[[str], Script]:
    """What stands in for scripts.load: every script with the machine's clock, one with the edit."""
    built: dict[str, Script] = {}

    def load_built(name: str) -> Script:
        if name not in built:
            script = load(name)
            source = script.source.decode()
            if edit is not None and edit.script == name:
                source = source.replace(shortened(edit.was), shortened(edit.becomes))
            source = source.replace(_REAL, _OURS)
            assert "'TIME'" not in source, f"{name}: reads a clock past now_us"
            raw = source.encode()
            sha = sha1(raw, usedforsecurity=False).hexdigest()
            built[name] = replace(script, source=raw, sha=sha)
        return built[name]

    return load_built


class Clock:
    """The time of both regions."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """`raw`: region -> a plain client of its Redis, which has just been emptied."""
        self._raw, self.now_ms = raw, START_MS
        self._set()

    def advance(self, by_ms: int) -> list[tuple[str, str]]:
        """Returns (region, key) of what expired."""
        self.now_ms += by_ms
        self._set()
        return [
            (region, key)
            for region, raw in self._raw.items()
            for key in self._cut_short(raw, by_ms)
        ]

    def _set(self) -> None:
        for raw in self._raw.values():
            # With a TTL, so that nobody takes it for something that was left behind.
            raw.set(KEY, self.now_ms * 1000, px=_LONGER_THAN_ANY_TEST_MS)

    def _cut_short(self, raw: Any, by_ms: int) -> list[str]:
        keys = [key for key in raw.scan_iter(count=1000) if key != KEY]
        with raw.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.pttl(key)
            lives = dict(zip(keys, pipe.execute(), strict=True))
            gone = [key for key, left_ms in lives.items() if 0 <= left_ms <= by_ms]
            for key, left_ms in lives.items():
                if left_ms > by_ms:
                    pipe.pexpire(key, left_ms - by_ms)
            for key in gone:
                pipe.delete(key)
            pipe.execute()
        return gone
