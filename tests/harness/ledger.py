"""A file that the product does not know, and that judges it: who started what, where, and when.

Handlers write with `note`, one line each; tests read with `Ledger`.
"""

import json
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tradewind import Context

VARIABLE = "LEDGER"


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `at` is the machine's monotonic clock in seconds, the same for all processes."""

    event: str
    task_id: str
    attempt: int
    region: str
    pid: int
    at: float


def note(event: str, ctx: Context) -> None:
    """Write a line, from inside a handler."""
    entry = {
        "event": event,
        "task_id": ctx.task_id,
        "attempt": ctx.attempt,
        "region": ctx.region,
        "pid": os.getpid(),
        "at": time.monotonic(),
    }
    # O_APPEND and one write: lines of several processes never mix.
    with Path(os.environ[VARIABLE]).open("a") as file:
        file.write(json.dumps(entry) + "\n")


class Ledger:
    """What was written from the position `begin` on."""

    def __init__(self, path: Path, begin: int = 0) -> None:
        self._path, self._begin = path, begin
        self._counted, self._counted_to = 0, begin

    def from_here(self) -> "Ledger":
        """The same file, without what it says so far."""
        return Ledger(self._path, self._path.stat().st_size)

    def __len__(self) -> int:
        """How many lines there are. Cheap to ask again and again."""
        with self._path.open("rb") as file:
            file.seek(self._counted_to)
            more = file.read()
        self._counted += more.count(b"\n")
        self._counted_to += len(more)
        return self._counted

    def lines(self, task_id: str = "", event: str = "") -> list[Line]:
        """Lines of one task or of all, oldest first."""
        with self._path.open("rb") as file:
            file.seek(self._begin)
            # A line that is being written has no end yet.
            whole = file.read().rpartition(b"\n")[0]
        entries = [Line(**json.loads(text)) for text in whole.splitlines()]
        return [
            line for line in entries if task_id in {"", line.task_id} and event in {"", line.event}
        ]

    def count(self, event: str) -> Counter[str]:
        """How often each task has done this."""
        return Counter(line.task_id for line in self.lines(event=event))

    def regions(self, task_id: str) -> list[str]:
        """Where the task was started, in order."""
        return [line.region for line in self.lines(task_id, "start")]
