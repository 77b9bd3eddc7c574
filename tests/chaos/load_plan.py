"""What the clients of a run are going to do: drawn from the seed, before anything runs."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

QUICK_S: Final = (0.02, 0.4)  # how long a task works
LONG_S: Final = (4.0, 14.0)  # a lease is 6 s: a worker that sleeps mostly has one of them
DELAY_S: Final = (1.0, 15.0)
AGAIN_S: Final = (0.0, 12.0)  # after which a client sends the same once more, to another router
CANCEL_S: Final = (0.0, 1.0)
EXPIRES_S: Final = (0.5, 4.0)


class Kind(StrEnum):
    """What is special about a task; see `operations`."""

    PLAIN = "plain"
    KEYED = "keyed"
    UNIQUE = "unique"
    DELAYED = "delayed"
    BROKEN = "broken"
    FLAKY = "flaky"
    CANCELLED = "cancelled"
    FENCED = "fenced"
    LONG = "long"
    SAFE = "safe"
    EXPIRING = "expiring"


#: Parts of the load: kinds of task and their share, in percent. Own choice: every way that a task
#: can go has some hundred tasks in a run of 8 minutes at 12 a second.
SHARES: Final = {
    Kind.PLAIN: 21,
    Kind.KEYED: 14,
    Kind.UNIQUE: 6,
    Kind.DELAYED: 10,
    Kind.BROKEN: 8,
    Kind.FLAKY: 7,
    Kind.CANCELLED: 8,
    Kind.FENCED: 9,
    Kind.LONG: 8,
    Kind.SAFE: 6,
    Kind.EXPIRING: 3,
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One task, and what its client does with it. Times in seconds since the load began."""

    number: int
    at_s: float
    kind: Kind
    router: int  # which of the routers is asked first
    origin: str  # region where the client says that it stands
    seconds: float  # for how long the handler works
    delay_s: float = 0.0  # DELAYED: not before; EXPIRING: not after
    again_s: float | None = None  # KEYED and UNIQUE: submitted once more, after so long
    cancel_s: float | None = None  # CANCELLED: after so long
    broken_in: str = ""  # BROKEN: fails in this region, and nowhere else
    fails: int = 0  # FLAKY: attempts that fail first

    @property
    def queue(self) -> str:
        """Whose policy it has."""
        return {Kind.UNIQUE: "unique", Kind.SAFE: "safe"}.get(self.kind, "default")


def operations(
    seed: int, length_s: float, per_s: float, regions: Sequence[str], routers: int
) -> list[Operation]:
    """Draw the whole load: a Poisson stream of tasks (own choice: clients know nothing of one
    another).
    """
    dice = random.Random(f"load {seed}")
    kinds, shares = list(SHARES), list(SHARES.values())
    drawn: list[Operation] = []
    at_s = 0.0
    while (at_s := at_s + dice.expovariate(per_s)) < length_s:
        (kind,) = dice.choices(kinds, shares)
        drawn.append(_one(dice, len(drawn), at_s, kind, regions, routers))
    return drawn


def _one(
    dice: random.Random, number: int, at_s: float, kind: Kind, regions: Sequence[str], routers: int
) -> Operation:
    is_repeated = kind in {Kind.KEYED, Kind.UNIQUE}
    delays = {Kind.DELAYED: DELAY_S, Kind.EXPIRING: EXPIRES_S}
    return Operation(
        number=number,
        at_s=at_s,
        kind=kind,
        router=dice.randrange(routers),
        origin=dice.choice(regions),
        seconds=dice.uniform(*(LONG_S if kind is Kind.LONG else QUICK_S)),
        delay_s=dice.uniform(*delays[kind]) if kind in delays else 0.0,
        again_s=dice.uniform(*AGAIN_S) if is_repeated else None,
        cancel_s=dice.uniform(*CANCEL_S) if kind is Kind.CANCELLED else None,
        broken_in=dice.choice(regions) if kind is Kind.BROKEN else "",
        fails=dice.randint(1, 2) if kind is Kind.FLAKY else 0,
    )
