"""Which interleavings there are: every step of a move, every way to fail there, who comes between.

Nothing here is picked by hand: the matrix is the product of its sides, less what cannot be.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal
from zlib import crc32

from tradewind.state import State

Route = Literal["carried", "elsewhere", "again", "kept"]
SEAL: Final = "seal "  # and the step whose effect it makes sure of
_LEAVES: Final = ("begin_export", f"{SEAL}begin_export", "import_task")
_ARRIVES: Final = (f"{SEAL}import_task", "ack_export", "settle_import")
_RETURNS: Final = ("refuse_import", f"{SEAL}refuse_import", "abort_export")
# The steps of a courier, in the order in which it takes them first.
STEPS: Final[Mapping[Route, tuple[str, ...]]] = {
    "carried": (*_LEAVES, *_ARRIVES),  # to the first target at once
    "elsewhere": (*_LEAVES, *_RETURNS),  # that one has no memory left, the second one has
    "again": (*_LEAVES, *_RETURNS),  # the only target has none, and has some later
    "kept": ("keep",),  # nobody works anywhere else, until later
}

# What happens to the first courier at one of its steps; another one succeeds it.
KILLED: Final = ("killed before", "killed after")
LIVES: Final = ("not sent", "answer lost")
ASLEEP: Final = ("asleep before", "asleep after")
# The region loses what the step has written: a seal that follows tells.
LOST: Final = ("lost with its courier", "lost", "lost after the answer")
UNCLOCKED: Final = "asleep before it looks at the clock"
UNSURE: Final = "no"  # of a seal
SLEEPS: Final = ("a moment", "long")

INTRUDERS: Final = ("cancel", "redrive", "expiry", "same key", "same request")
ALONE: Final = "nobody"
GAPS: Final = ("after the fault", "before it wakes", "in the end")


@dataclass(frozen=True, slots=True)
class Matter:
    """What is moved, and why. `guest`: it came from a third region, where it had died."""

    reason: str
    former: State
    guest: bool = False

    def __str__(self) -> str:
        """For ids."""
        return f"{self.reason}-{self.former}{'-guest' if self.guest else ''}"


MATTERS: Final = (
    *(Matter(kind, State.DEAD_LETTER) for kind in ("exhausted", "timeout", "crashed")),
    Matter("exhausted", State.DEAD_LETTER, guest=True),
    *(
        Matter(reason, state)
        for reason in ("evacuation", "unserved")
        for state in (State.PENDING, State.SCHEDULED, State.FAILED)
    ),
    Matter("evacuation", State.DEAD_LETTER),
    Matter("evacuation", State.PENDING, guest=True),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One interleaving."""

    route: Route
    step: str  # at which the first courier fails
    fault: str
    sleep: str  # how long, if that is a sleep
    matter: Matter
    intruder: str
    gap: str  # when the intruder comes: "before STEP", whoever takes it, or a moment of GAPS

    def __str__(self) -> str:
        """All of it, readable."""
        fault = f"{self.fault} ({self.sleep})" if self.sleep else self.fault
        comes = "" if self.intruder == ALONE else f", {self.intruder} {self.gap}"
        return f"{self.matter} {self.route}: {fault} at {self.step}{comes}"

    @property
    def happens(self) -> bool:
        """Whether the courier comes to the step, since nobody comes before who could end that."""
        return self.intruder in {ALONE, "same key", "same request"} or self.gap in GAPS

    @property
    def place(self) -> int:
        """Where it comes in a choice of some cases: as good as any, and always the same."""
        return crc32(str(self).encode())


def faults(step: str) -> Iterator[tuple[str, str]]:
    """What may happen at a step, with how long."""
    more = (UNSURE,) if step.startswith(SEAL) else LOST
    yield from ((fault, "") for fault in (*KILLED, *LIVES, *more))
    asleep = (UNCLOCKED, *ASLEEP) if step == "import_task" else ASLEEP
    yield from itertools.product(asleep, SLEEPS)


def comings(route: Route, *, sleeps: bool) -> Iterator[tuple[str, str]]:
    """Who comes between, and when."""
    yield ALONE, ""
    gaps = [f"before {step}" for step in STEPS[route]]
    gaps += [gap for gap in GAPS if sleeps or gap != "before it wakes"]
    yield from itertools.product(INTRUDERS, gaps)


def cases(route: Route, step: str) -> list[Case]:
    """Every case in which the courier fails at that step of that route."""
    return [
        Case(route, step, fault, sleep, matter, intruder, gap)
        for fault, sleep in faults(step)
        for matter in MATTERS
        for intruder, gap in comings(route, sleeps=bool(sleep))
    ]


def some(of: Sequence[Case], each: int) -> list[Case]:
    """A choice: of each fault that many, always the same ones, first one where it surely happens.

    Of each sleep, too. With `each` 0 one of each fault, however long its sleep, and one of each
    intruder.
    """
    found: list[Case] = []
    ordered = sorted(of, key=lambda case: case.place)
    for fault in dict.fromkeys((case.fault, case.sleep if each else "") for case in of):
        alike = [c for c in ordered if (c.fault, c.sleep if each else "") == fault]
        alike.sort(key=lambda case: not case.happens)
        found += [alike[0], *sorted(alike[1:], key=lambda case: case.place)[: max(0, each - 1)]]
    if not each:
        found += [next(c for c in ordered if c.intruder == intruder) for intruder in INTRUDERS]
    return found


EVERYWHERE: Final = [(route, step) for route, steps in STEPS.items() for step in steps]
# Every step in every way, once: "again" differs from "elsewhere" in how it goes on.
QUICK: Final = [(route, step) for route, step in EVERYWHERE if route != "again"]
