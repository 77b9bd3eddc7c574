"""What goes wrong in a run, when, and for how long: drawn from the seed, before anything runs."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Fault(StrEnum):
    """A kind of fault. What each does is in nemesis.py."""

    KILL_PRIMARY = "kill primary"
    PAUSE_PRIMARY = "pause primary"
    KILL_REPLICA = "kill replica"
    PAUSE_REPLICA = "pause replica"
    FAILOVER = "failover"  # of a Cluster: the nodes agree, and nothing is lost
    SWITCH = "switch"  # by Sentinels, which do not ask the old primary
    RESHARD = "reshard"
    FLUSH_SCRIPTS = "flush scripts"
    KILL_CLIENTS = "kill connections"
    FULL = "memory full"
    KILL_WORKER = "kill worker"
    PAUSE_WORKER = "pause worker"
    KILL_ROUTER = "kill router"
    PAUSE_ROUTER = "pause router"
    SILENT_LINK = "silent link"
    RESET_LINK = "reset link"
    LOSSY_LINK = "lost answers"
    CORDON = "cordon"
    DRAIN = "drain"
    EVACUATE = "evacuate"


@dataclass(frozen=True, slots=True)
class Effects:
    """What a fault may rightly do to tasks of its region, and for how long it lasts.

    `interrupts`: a run under way may be cut off, or its end not be heard of, so that its task
    starts once more. `forgets`: what a primary had answered in the last moment may be gone, as
    docs/durability.md says.
    """

    lasts_s: tuple[float, float]
    interrupts: bool = False
    forgets: bool = False


_AT_ONCE: Final = (0.0, 0.0)
EFFECTS: Final[Mapping[Fault, Effects]] = {
    Fault.KILL_PRIMARY: Effects((2.0, 8.0), interrupts=True, forgets=True),
    Fault.PAUSE_PRIMARY: Effects((1.0, 9.0), interrupts=True, forgets=True),
    Fault.KILL_REPLICA: Effects((2.0, 8.0)),
    Fault.PAUSE_REPLICA: Effects((2.0, 8.0)),
    Fault.FAILOVER: Effects(_AT_ONCE),
    Fault.SWITCH: Effects(_AT_ONCE, interrupts=True, forgets=True),
    Fault.RESHARD: Effects(_AT_ONCE),
    Fault.FLUSH_SCRIPTS: Effects(_AT_ONCE),
    Fault.KILL_CLIENTS: Effects(_AT_ONCE),
    Fault.FULL: Effects((3.0, 8.0)),
    Fault.KILL_WORKER: Effects((0.5, 6.0), interrupts=True),
    # A lease is 6 s, and its end is noticed some seconds later: one that sleeps longer wakes up
    # while somebody else runs its tasks.
    Fault.PAUSE_WORKER: Effects((3.0, 16.0), interrupts=True),
    Fault.KILL_ROUTER: Effects((0.5, 6.0)),
    Fault.PAUSE_ROUTER: Effects((2.0, 8.0)),
    Fault.SILENT_LINK: Effects((2.0, 10.0), interrupts=True),
    Fault.RESET_LINK: Effects((1.0, 5.0), interrupts=True),
    Fault.LOSSY_LINK: Effects((3.0, 10.0), interrupts=True),
    Fault.CORDON: Effects((3.0, 10.0)),
    Fault.DRAIN: Effects((3.0, 10.0)),
    Fault.EVACUATE: Effects((5.0, 12.0)),
}


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault. `region` is where it strikes; which of several is drawn by `choice`, 0 to 1."""

    number: int
    fault: Fault
    region: str
    at_s: float  # since the load began
    lasts_s: float
    choice: float

    @property
    def until_s(self) -> float:
        """When it is over."""
        return self.at_s + self.lasts_s


FIRST_S: Final = 5.0  # the load runs by then
GAP_S: Final = (1.0, 8.0)  # from one beginning to the next: they overlap now and then
# A region whose Redis has just come back has its replicas to bring up to date: a second blow before
# that takes a copy away that was promised to nobody.
REST_S: Final = 10.0
_AT_REDIS: Final = frozenset(
    {
        Fault.KILL_PRIMARY,
        Fault.PAUSE_PRIMARY,
        Fault.KILL_REPLICA,
        Fault.PAUSE_REPLICA,
        Fault.FAILOVER,
        Fault.SWITCH,
        Fault.RESHARD,
    }
)
_OF_STATES: Final = frozenset({Fault.CORDON, Fault.DRAIN, Fault.EVACUATE})
_OF_LINKS: Final = frozenset({Fault.SILENT_LINK, Fault.RESET_LINK, Fault.LOSSY_LINK})


def strikes(seed: int, length_s: float, possible: Mapping[str, Sequence[Fault]]) -> list[Strike]:
    """Draw all faults. `possible`: region -> what can go wrong there.

    All are over by `length_s`. No two strike at one region's Redis within REST_S. No two spoil the
    links to one region at once: the first to end would mend the other's. No two change the states
    of regions at once, since one of each fence has to stay on.
    """
    dice = random.Random(f"faults {seed}")
    drawn: list[Strike] = []
    at_s = FIRST_S
    while at_s < length_s:
        region = dice.choice(list(possible))
        fault = dice.choice(possible[region])
        lasts_s = dice.uniform(*EFFECTS[fault].lasts_s)
        strike = Strike(len(drawn), fault, region, at_s, lasts_s, dice.random())
        if strike.until_s < length_s and not any(_collides(strike, one) for one in drawn):
            drawn.append(strike)
            at_s += dice.uniform(*GAP_S)
        else:
            at_s += GAP_S[0]
    return drawn


def _collides(strike: Strike, before: Strike) -> bool:
    if {strike.fault, before.fault} <= _OF_STATES:
        return strike.at_s < before.until_s + REST_S
    if strike.region != before.region:
        return False
    if {strike.fault, before.fault} <= _AT_REDIS:
        return strike.at_s < before.until_s + REST_S
    is_same = strike.fault is before.fault or {strike.fault, before.fault} <= _OF_LINKS
    return is_same and strike.at_s < before.until_s
