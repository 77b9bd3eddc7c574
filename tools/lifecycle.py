"""Write docs/lifecycle.md from tradewind/state.py, or check that it is what would be written.

python tools/lifecycle.py          write
python tools/lifecycle.py check    fail if the page is not current
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from tradewind.state import FINAL, TRANSITIONS, Event, Mark, State

PAGE = Path(__file__).resolve().parent.parent / "docs" / "lifecycle.md"

_HEAD = """\
# The life of a task

Written by `python tools/lifecycle.py` from `tradewind/state.py`; a test fails if the two differ.
Each event is one script in `tradewind/store/lua/`, or part of one, so a transition happens whole
or not at all. An event that has no row for a state cannot happen there and changes nothing.

A running task is cancelled in two steps: the request marks it and tells its holder, and it ends
when the holder confirms. Until then its holder may still finish it; *retry*, *bury*, *release*,
*crashed* and an expired lease end it CANCELLED instead. Expiry does not touch a task that runs. One
that an enqueue or import brings past its expiry is stored EXPIRED. What waits is moved only out of
a region that is evacuated, or where nobody serves it; on its way it neither expires nor starts.
"""

_WAITS = """\
## How long a task waits

- *Due* tasks become ready when a claim or a sweep of their partition sees them; workers arm a timer
  for the next one, and a task that is due before all others of its partition wakes one who does. A
  sweep makes at most 64 of each priority ready, a claim as many as it may take, at most 128: what
  came due at once starts high first, and what is due later costs nothing. `not_before` and
  `expires_at` are instants by the clock of the region's Redis.
- *Retries* wait for `initial * factor^(n-1)`, at most `max`: half of that for certain, the other
  half by chance. `Retry(after)` is never cut short; by chance it takes up to half as long again.
- *Priorities*: high before normal before low, first come first served within one. With a queue's
  `starvation_after`, a task that has been ready for longer than that goes before all that have
  not, oldest first. So a lower priority waits behind higher ones for about `starvation_after`; from
  then on only behind tasks that have been ready for as long. The longest wait of a task is
  `starvation_after + (M + 128) * P / r`: `M` tasks of its partition have waited for
  `starvation_after` as well before it starts, `P` partitions have work, and the region completes
  `r` tasks a second. Where more comes in than can be run, `M` grows with the backlog:
  `tradewind_oldest_task_age_seconds` shows it, by priority. What came due while no worker lived is
  in line from when it is made ready, so that priorities hold after an outage; a task handed back by
  a worker is first in line again.
- *Expiry*: from `expires_at` on no attempt starts. A claim that meets such a task ends it; a sweep
  ends those that nobody claims. Until then it may still be shown as waiting. `expires` of the SDK
  and `--expires` count from the time that the router has from its region's Redis and tells with its
  health Check (`tradewind-now-ms`, initial metadata), so the caller's own clock does not matter.
"""

_STATES = {
    State.PENDING: "Ready: a worker of its region may claim it.",
    State.SCHEDULED: "Delayed at submit; becomes ready when it is due.",
    State.PROCESSING: "A worker holds its lease and the current fencing token.",
    State.FAILED: "An attempt failed; becomes ready again when the retry is due.",
    State.COMPLETED: "Done. The result is readable until the queue's retention has passed.",
    State.DEAD_LETTER: (
        "Given up here. A courier may move it to another region; it is *settled* once none will. "
        "Purged after the queue's retention."
    ),
    State.MOVING: "Promised to one other region; runs in neither until that one has it.",
    State.CANCELLED: "Ended by its submitter.",
    State.EXPIRED: "Its `expires_at` passed before an attempt could start.",
}

_MARKS = {
    Mark.FORWARDED: "The task left for another region; the record says which.",
    Mark.PURGED: (
        "What is left of a purged task for 10 minutes: a repeat of its submit that is still under "
        "way cannot store it again. Readers do not see it."
    ),
    Mark.REFUSED: "A tombstone: the id may not be stored here at this epoch or a lower one.",
}


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_diagram(), "", *_table(), "", *_states(), "", _WAITS])


def _diagram() -> Iterator[str]:
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield "    [*] --> PENDING: enqueue, import"
    yield "    [*] --> SCHEDULED: enqueue with a delay"
    for (source, event), target in TRANSITIONS.items():
        yield f"    {source} --> {target}: {event}"
    yield f"    {State.MOVING} --> [*]: ack_export"
    for state in State:
        if state in FINAL:
            yield f"    {state} --> [*]"
    yield "```"


def _table() -> Iterator[str]:
    yield "| event | from | to |"
    yield "|---|---|---|"
    for event in Event:
        by_target: dict[State, list[State]] = {}
        for (source, happened), target in TRANSITIONS.items():
            if happened is event:
                by_target.setdefault(target, []).append(source)
        for target, sources in by_target.items():
            yield f"| {event} | {', '.join(sources)} | {target} |"


def _states() -> Iterator[str]:
    yield "| state | meaning |"
    yield "|---|---|"
    for state in State:
        yield f"| {state} | {_STATES[state]}{' Final.' if state in FINAL else ''} |"
    yield ""
    yield "What a record can be when it is no task; it is in no count:"
    yield ""
    yield "| mark | meaning |"
    yield "|---|---|"
    for mark in Mark:
        yield f"| {mark} | {_MARKS[mark]} |"


def main(arguments: list[str]) -> int:
    """Write or check; returns the exit code."""
    if arguments not in ([], ["check"]):
        print("usage: python tools/lifecycle.py [check]", file=sys.stderr)
        return 2
    if not arguments:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page():
        return 0
    print(
        f"{PAGE} is not what tradewind/state.py says: run `python tools/lifecycle.py`.",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
