"""What code is tried: this tree's, or one broken on purpose, which the checker has to notice."""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_PACKAGES: Final = ("tradewind", "router", "worker")
_LUA: Final = Path("tradewind/store/lua")


@dataclass(frozen=True, slots=True)
class Change:
    """One place in the sources that reads otherwise in a mutant."""

    path: Path
    was: str
    becomes: str


MUTANTS: Final[Mapping[str, Sequence[Change]]] = {
    "finish-without-fence": [
        Change(
            _LUA / "finish.lua",
            "not_held_by(v, ARGV[a], ARGV[a + 1], ARGV[a + 2], 'COMPLETED')",
            "not_held_by(v, ARGV[a], v[2], v[3], 'COMPLETED')",
        )
    ],
    "import-twice": [
        Change(_LUA / "lib" / "arrival.lua", "if came >= epoch then", "if false then"),
        Change(_LUA / "lib" / "arrival.lua", "tonumber(v[2]) >= epoch then", "false then"),
        Change(
            _LUA / "lib" / "arrival.lua",
            "if v[1] and v[1] ~= 'FORWARDED' and v[1] ~= 'REFUSED' then",
            "if false then",
        ),
    ],
    "reap-by-age": [
        Change(
            _LUA / "renew.lua",
            "redis.call('ZADD', leases, int(now_ms + tonumber(ARGV[a + 3])), ARGV[a])",
            "",
        )
    ],
}


def digest(root: Path) -> str:
    """Twelve hex digits of the services' code and this suite's, wherever the tree lies."""
    files = sorted(
        file
        for folder in (*_PACKAGES, "tests/chaos", "tests/harness")
        for file in (root / folder).rglob("*")
        if file.suffix in {".py", ".lua"}
    )
    text = hashlib.sha256()
    for file in files:
        text.update(f"{file.relative_to(root)} {file.stat().st_size}\n".encode())
        text.update(file.read_bytes())
    return text.hexdigest()[:12]


def broken_tree(mutant: str, target: Path) -> Path:
    """Copy the services' code to `target`, with the changes of a mutant. Gives `target`.

    Raises AssertionError if the code has changed so that one no longer fits.
    """
    for package in _PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, target / package, ignore=ignored)
    for change in MUTANTS[mutant]:
        file = target / change.path
        text = file.read_text()
        assert text.count(change.was) == 1, f"{mutant}: {change.was!r} in {change.path}"
        file.write_text(text.replace(change.was, change.becomes))
    return target
