"""Which interleavings there are: every step of a move, every way to fail there, who comes between.

Nothing here is picked by hand: the matrix is the product of its sides, less what cannot be.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Literal
from zlib import crc32

from tradewind.state import State

Route = Literal["carried", "elsewhere", "again", "kept", "left"]
SEAL: Final = "seal "  # and the step whose effect it makes sure of
_LEAVES: Final = ("begin_export", f"{SEAL}begin_export", "import_task")
_ARRIVES: Final = (f"{SEAL}import_task", "ack_export", f"{SEAL}ack_export", "settle_import")
_RETURNS: Final = ("refuse_import", f"{SEAL}refuse_import", "abort_export")
# The steps of a courier, in the order in which it takes them first.
STEPS: Final[Mapping[Route, tuple[str, ...]]] = {
    "carried": (*_LEAVES, *_ARRIVES),  # to the first target at once
    "elsewhere": (*_LEAVES, *_RETURNS),  # that one has no memory left, the second one has
    "again": (*_LEAVES, *_RETURNS),  # the only target has none, and has some later
    "kept": ("keep",),  # nobody works anywhere else, until later
    "left": (),  # it died of what it is not to be moved for
}

# What happens to a courier at one of its steps; another one succeeds it.
KILLED: Final = ("killed before", "killed after")
LIVES: Final = ("not sent", "answer lost")
ASLEEP: Final = ("asleep before", "asleep after")
# The region loses what the step has written, and is back before anybody notices: the seal that
# follows makes sure of what is left.
LOST: Final = ("lost with its courier", "lost", "lost after the answer")
UNCLOCKED: Final = "asleep before it looks at the clock"
UNSURE: Final = "no"  # of a seal
LONG: Final = "long"  # others have done all there is to do, and forgotten it
BACK: Final = "until it leaves again"  # it has come back meanwhile, and that courier is killed
SLEEPS: Final = ("a moment", LONG, BACK)
OUTAGES: Final = ("", LONG)  # of a region that loses something: it is back at once, or is not

INTRUDERS: Final = ("cancel", "redrive", "purge", "expiry", "same key", "same request")
ALONE: Final = "nobody"
_CHANGE_NOTHING: Final = (ALONE, "same key", "same request")
GAPS: Final = ("after the fault", "before it wakes", "in the end")


@dataclass(frozen=True, slots=True)
class Matter:
    """What is moved, and why. `guest`: it came from a third region, where it had died.

    `stays`: its queue's failover.on does not list what it died of, so it is not to run elsewhere.
    `torn`: nobody can read it.
    """

    reason: str
    former: State
    guest: bool = False
    stays: bool = False
    torn: bool = False

    def __str__(self) -> str:
        """For ids."""
        more = [name for name in ("guest", "stays", "torn") if getattr(self, name)]
        return "-".join([self.reason, str(self.former), *more])


KINDS: Final = ("exhausted", "timeout", "crashed", "rejected", "damaged")
MATTERS: Final = (
    *(Matter(kind, State.DEAD_LETTER) for kind in KINDS),
    Matter("exhausted", State.DEAD_LETTER, guest=True),
    *(
        Matter(reason, state)
        for reason in ("evacuation", "unserved")
        for state in (State.PENDING, State.SCHEDULED, State.FAILED)
    ),
    Matter("evacuation", State.DEAD_LETTER),
    Matter("evacuation", State.DEAD_LETTER, stays=True),  # it rests elsewhere
    Matter("evacuation", State.PENDING, guest=True),
)
# No courier may take a step with these.
STAYING: Final = (
    *(Matter(kind, State.DEAD_LETTER, stays=True) for kind in KINDS),
    Matter("damaged", State.DEAD_LETTER, torn=True),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """At which step a courier fails, how, and for how long it, or the region, is away."""

    step: str = ""
    kind: str = ""
    lasts: str = ""

    def __str__(self) -> str:
        """All of it, readable."""
        return f"{self.kind} ({self.lasts}) at {self.step}".replace(" ()", "")


WELL: Final = Fault()


@dataclass(frozen=True, slots=True)
class Case:
    """One interleaving."""

    route: Route
    fault: Fault  # of the first courier
    matter: Matter
    intruder: str
    gap: str  # when the intruder comes: "before STEP", whoever takes it, or a moment of GAPS
    second: Fault = WELL  # of the courier that succeeds the first one
    closed: str = ""  # when a new policy takes the first target out of the fence: a gap

    def __str__(self) -> str:
        """All of it, readable."""
        parts = [f"{self.matter} {self.route}: {self.fault}"]
        parts += [] if self.second == WELL else [f"then {self.second}"]
        parts += [f"new fence {self.closed}"] if self.closed else []
        parts += [] if self.intruder == ALONE else [f"{self.intruder} {self.gap}"]
        return ", ".join(parts)

    @property
    def rests(self) -> bool:
        """Whether it is a dead letter that stays one, wherever it is: nobody has to work there."""
        return self.matter.stays and self.matter.reason == "evacuation"

    @property
    def happens(self) -> bool:
        """Whether the courier comes to the step, since nobody comes before who could end that."""
        return self.intruder in _CHANGE_NOTHING or self.gap in GAPS

    @property
    def place(self) -> int:
        """Where it comes in a choice of some cases: as good as any, and always the same."""
        return crc32(str(self).encode())


def faults(step: str) -> Iterator[Fault]:
    """What may happen at a step, with how long."""
    yield from (Fault(step, kind) for kind in (*KILLED, *LIVES))
    if step.startswith(SEAL):
        yield Fault(step, UNSURE)
    else:
        yield from (Fault(step, *both) for both in itertools.product(LOST, OUTAGES))
    asleep = (UNCLOCKED, *ASLEEP) if step == "import_task" else ASLEEP
    yield from (Fault(step, *both) for both in itertools.product(asleep, SLEEPS))


def gaps(route: Route, fault: Fault) -> list[str]:
    """When somebody may come."""
    moments = [gap for gap in GAPS if fault.lasts or gap != "before it wakes"]
    return [f"before {step}" for step in STEPS[route]] + moments


def cases(route: Route, step: str) -> list[Case]:
    """Every case in which one courier fails, at that step of that route."""
    return [
        Case(route, fault, matter, intruder, gap)
        for fault in faults(step)
        for matter in MATTERS
        for intruder, gap in [(ALONE, ""), *itertools.product(INTRUDERS, gaps(route, fault))]
        if fault.lasts != BACK or intruder in _CHANGE_NOTHING  # else it might not come back
        if route != "kept" or not matter.stays  # that goes where nobody works
    ]


def more(case: Case) -> list[Case]:
    """The same with one thing more: a second courier fails, too, or the fence changes."""
    second = [replace(case, second=fault) for step in STEPS[case.route] for fault in faults(step)]
    return second + [replace(case, closed=gap) for gap in gaps(case.route, case.fault)]


def left() -> list[Case]:
    """What no courier may touch, whoever comes to it, whatever becomes of its fence."""
    comings = [(ALONE, ""), *itertools.product(INTRUDERS, gaps("left", WELL))]
    return [
        Case("left", WELL, matter, intruder, gap, closed=closed)
        for matter in STAYING
        for intruder, gap in comings
        for closed in ("", *gaps("left", WELL))
    ]


def number() -> int:
    """How many cases there are in all."""
    plain = (case for route, step in EVERYWHERE for case in cases(route, step))
    enlarged: dict[tuple[Route, str], int] = {
        (route, lasts): len(more(Case(route, Fault("", "", lasts), MATTERS[0], ALONE, "")))
        for route in STEPS
        for lasts in ("", LONG)
    }
    return sum(1 + enlarged[case.route, case.fault.lasts and LONG] for case in plain) + len(left())


def drawn(route: Route, step: str, count: int, seed: int) -> list[Case]:
    """So many cases of a step with one thing more, drawn from all of them."""
    random, every = Random(f"{seed} {route} {step}"), cases(route, step)
    return [random.choice(more(random.choice(every))) for _ in range(count)]


def some(of: Sequence[Case], each: int) -> list[Case]:
    """A choice: of each fault that many, always the same ones, first one where it surely happens.

    Of each sleep, too. With `each` 0 one of each fault, however long it lasts, and one of half of
    the intruders, with one thing more.
    """
    found: list[Case] = []
    ordered = sorted(of, key=lambda case: case.place)
    for alike in _by_fault(ordered, lasting=bool(each)):
        lasted = {case.fault.lasts for case in found}
        alike.sort(key=lambda case: (not case.happens, case.fault.lasts in lasted))
        found += [alike[0], *sorted(alike[1:], key=lambda case: case.place)[: max(0, each - 1)]]
    if not each:
        firsts = [next(c for c in ordered if c.intruder == intruder) for intruder in INTRUDERS]
        firsts = sorted(firsts, key=lambda case: case.place)[: len(INTRUDERS) // 2]
        found += [min(more(case), key=lambda case: case.place) for case in firsts]
    return found


def _by_fault(of: Sequence[Case], *, lasting: bool) -> list[list[Case]]:
    alike: dict[Fault, list[Case]] = {}
    for case in of:
        key = case.fault if lasting else replace(case.fault, lasts="")
        alike.setdefault(key, []).append(case)
    return list(alike.values())


EVERYWHERE: Final[Sequence[tuple[Route, str]]] = [
    (route, step) for route, steps in STEPS.items() for step in steps
]
# Every step in every way, once: "again" differs from "elsewhere" in how it goes on.
QUICK: Final = [(route, step) for route, step in EVERYWHERE if route != "again"]
