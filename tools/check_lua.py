"""Run luacheck on the Redis scripts, each with its includes in front, as Redis gets it.

    python tools/check_lua.py

Alone, a file of lib/ uses functions it does not define and defines functions it does not use.
So scripts are checked as put together, and a function of lib/ counts as unused only if no script
uses it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LUA = ROOT / "tradewind" / "store" / "lua"
MAX_LINES = 80  # of one file; longer ones hide what a transition does
UNUSED = "W211"
_INCLUDE = re.compile(r"^-- @include (.+)$")
_WARNING = re.compile(r"^stdin:(\d+):(\d+): \(([EW]\d+)\) (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a script as put together, and where it came from."""

    path: Path
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of luacheck, at its place in the source."""

    place: Line
    column: int
    code: str
    text: str

    def __str__(self) -> str:
        where = self.place.path.relative_to(ROOT)
        return f"{where}:{self.place.number}:{self.column}: {self.code} {self.text}"


def put_together(script: Path) -> list[Line]:
    """Return the script's lines after those of the files it includes, each included once."""
    seen: set[Path] = set()

    def lines(path: Path) -> Iterator[Line]:
        own = [Line(path, n, t) for n, t in enumerate(path.read_text().splitlines(), start=1)]
        for line in own:
            found = _INCLUDE.match(line.text)
            for name in found.group(1).split() if found else ():
                included = LUA / "lib" / f"{name}.lua"
                if included not in seen:
                    seen.add(included)
                    yield from lines(included)
        # Redis reads the #! line; to Lua it is an error anywhere but at the very start.
        yield from (line for line in own if not line.text.startswith("#!"))

    return list(lines(script))


def findings(luacheck: str, script: Path) -> list[Finding]:
    """Return what luacheck says about a script."""
    lines = put_together(script)
    done = subprocess.run(
        [luacheck, "-", "--codes", "--formatter", "plain", "--config", str(ROOT / ".luacheckrc")],
        input="\n".join(line.text for line in lines),
        check=False,
        capture_output=True,
        text=True,
    )
    found = [
        Finding(lines[int(line) - 1], int(column), code, text)
        for line, column, code, text in _WARNING.findall(done.stdout)
    ]
    if done.returncode and not found:
        sys.exit(f"luacheck failed on {script.name}: {done.stdout}{done.stderr}")
    return found


def check(luacheck: str) -> list[str]:
    """Return a sentence for each thing that is wrong, without repetition."""
    scripts = sorted(LUA.glob("*.lua"))
    parts = {script: {line.path for line in put_together(script)} for script in scripts}
    users: dict[Path, int] = {}
    for paths in parts.values():
        for path in paths:
            users[path] = users.get(path, 0) + 1
    wrong: list[str] = [
        f"{path.relative_to(ROOT)}: no script includes it"
        for path in sorted((LUA / "lib").glob("*.lua"))
        if path not in users
    ]
    wrong += [
        f"{path.relative_to(ROOT)}: more than {MAX_LINES} lines"
        for path in users
        if len(path.read_text().splitlines()) > MAX_LINES
    ]
    counts: dict[str, tuple[Finding, int]] = {}
    for script in scripts:
        for warning in findings(luacheck, script):
            counts[str(warning)] = (warning, counts.get(str(warning), (warning, 0))[1] + 1)
    for sentence, (warning, times) in counts.items():
        shared = warning.place.path.parent.name == "lib"
        if not shared or warning.code != UNUSED or times == users[warning.place.path]:
            wrong.append(sentence)
    return sorted(wrong)


def main() -> int:
    """Print what is wrong; return 1 if anything is, or if CI has no luacheck."""
    luacheck = shutil.which("luacheck")
    if luacheck is None:
        where = "Debian's package lua-check, which .ci/run installs"
        print(f"NOT CHECKED: Redis scripts, since luacheck is missing: {where}.", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    wrong = check(luacheck)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"luacheck: {len(list(LUA.glob('*.lua')))} scripts, {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
