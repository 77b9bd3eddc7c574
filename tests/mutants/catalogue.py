"""Changes that break an invariant: each takes out, or turns, one line that closes a door.

What they are for is to show that the machine of tests/machine would notice. Where a script has
several doors to one room, each is a mutant of its own. They stand in changes.txt.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.machine.clock import Edit
from tests.mutants.hunt import Mutant

_CHANGES = Path(__file__).with_name("changes.txt")
_MUTANT = re.compile(r"^@ (\w+) (.+)\n((?:-.*\n)+)((?:\+.*\n)+)", re.MULTILINE)


def _mutants() -> Iterator[Mutant]:
    _, *parts = re.split(r"^# invariant (\d)\n", _CHANGES.read_text(), flags=re.MULTILINE)
    for invariant, part in zip(parts[::2], parts[1::2], strict=True):
        for script, what, was, becomes in _MUTANT.findall(part):
            edit = Edit(script, _text(was), _text(becomes))
            yield Mutant(int(invariant), f"{script} {what}", edit)


def _text(lines: str) -> str:
    return "\n".join(line[1:] for line in lines.splitlines())


MUTANTS = tuple(_mutants())
