"""What goes wrong, when: scripts after real outages, compressed in time.

The ids are those of outages.json in the shared data; a script keeps what failed and in which
order, not for how many hours.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class Condition:
    """How one region is. `refused` and `lost` are shares of calls; `workers` of its workers."""

    reach: Literal["ok", "refuses", "silent"] = "ok"  # its Redis: dead, or cut off from all routers
    slow: float = 1.0  # factor on every round trip to it
    refused: float = 0.0  # answered with an error that says that nothing was stored
    lost: float = 0.0  # cut off half-way: the caller cannot know
    workers: float = 1.0
    drained: bool = False

    @property
    def takes_work(self) -> bool:
        """Whether a task that is sent there can be stored at all."""
        return self.reach == "ok" and not self.drained


GOOD = Condition()


@dataclass(frozen=True, slots=True)
class Change:
    """From `at_s` on the region is so."""

    at_s: float
    region: str
    condition: Condition


@dataclass(frozen=True, slots=True)
class Script:
    """A story: its changes, when it begins and when all is well again, in seconds."""

    name: str
    like: str  # the id of a real one
    begins_s: float
    ends_s: float
    changes: tuple[Change, ...]
    patience_s: float = 30.0  # how long a caller goes on asking (the SDK's deadline)


Shape = Callable[[Sequence[str], float, float], Script]


def _span(regions: Sequence[str], how: Condition, begins_s: float, ends_s: float) -> list[Change]:
    changes = [Change(begins_s, region, how) for region in regions]
    return changes + [Change(ends_s, region, GOOD) for region in regions]


def hard_down(regions: Sequence[str], begins_s: float, length_s: float) -> Script:
    """One region's Redis is gone."""
    ends_s = begins_s + length_s
    changes = _span(regions[2:3], Condition(reach="refuses"), begins_s, ends_s)
    return Script("hard-down", "az-cus-2024-07", begins_s, ends_s, tuple(changes))


def cut_off(regions: Sequence[str], begins_s: float, length_s: float) -> Script:
    """No packet reaches one region: nothing is refused, everything runs into its time-out."""
    ends_s = begins_s + length_s
    changes = _span(regions[2:3], Condition(reach="silent"), begins_s, ends_s)
    return Script("cut-off", "gcp-euw9-2023-04", begins_s, ends_s, tuple(changes))


def gray(regions: Sequence[str], begins_s: float, length_s: float) -> Script:
    """Ten times the round trip, and three calls in ten fail, half of them in doubt."""
    ends_s = begins_s + length_s
    how = Condition(slow=10.0, refused=0.15, lost=0.15)
    changes = _span(regions[2:3], how, begins_s, ends_s)
    return Script("gray", "aws-use1-2021-12", begins_s, ends_s, tuple(changes))


FLAP_DOWN_S, FLAP_UP_S = 25.0, 45.0  # long enough that three probes see each


def flapping(regions: Sequence[str], begins_s: float, length_s: float) -> Script:
    """One region goes and comes, slowly enough that three probes in a row see each."""
    return _flapping("flapping", regions, begins_s, length_s)


def shut_out(regions: Sequence[str], begins_s: float, length_s: float) -> Script:
    """The same until routers have shut it out; then it is well, while it stays out for long."""
    return _flapping("shut-out", regions, begins_s, length_s)


def _flapping(name: str, regions: Sequence[str], begins_s: float, length_s: float) -> Script:
    changes: list[Change] = []
    at_s, ends_s = begins_s, begins_s + length_s
    while at_s + FLAP_DOWN_S <= ends_s:
        changes += _span(regions[2:3], Condition(reach="refuses"), at_s, at_s + FLAP_DOWN_S)
        at_s += FLAP_DOWN_S + FLAP_UP_S
    return Script(name, "aws-use1-2025-10", begins_s, ends_s, tuple(changes))


def neighbours(regions: Sequence[str], begins_s: float, length_s: float) -> Script:
    """A region fails, and the nearest one after a quarter of the time, too."""
    ends_s, how = begins_s + length_s, Condition(reach="refuses")
    changes = _span(regions[2:3], how, begins_s, ends_s)
    changes += _span(regions[3:4], how, begins_s + length_s / 4, ends_s)
    return Script("neighbours", "aws-mec1-2026-03", begins_s, ends_s, tuple(changes))


def herd(regions: Sequence[str], begins_s: float, length_s: float) -> Script:
    """All regions at once; the busiest comes last, and callers have asked all the while."""
    ends_s = begins_s + length_s
    how = Condition(reach="refuses")
    changes = _span(regions[1:], how, begins_s, begins_s + length_s * 0.8)
    changes += _span(regions[:1], how, begins_s, ends_s)
    return Script("herd", "gcp-global-2025-06", begins_s, ends_s, tuple(changes), 900.0)


def third_gone(regions: Sequence[str], begins_s: float, length_s: float) -> Script:
    """One third of the workers of a region are gone."""
    ends_s = begins_s + length_s
    changes = _span(regions[2:3], Condition(workers=2 / 3), begins_s, ends_s)
    return Script("third-gone", "az-ae-2023-08", begins_s, ends_s, tuple(changes))


def mistaken_drain(regions: Sequence[str], begins_s: float, length_s: float) -> Script:
    """Two healthy regions of different fences are drained, and activated again."""
    ends_s = begins_s + length_s
    changes = _span((regions[1], regions[3]), Condition(drained=True), begins_s, ends_s)
    return Script("mistaken-drain", "gcp-euw2-2022-07", begins_s, ends_s, tuple(changes))


SHAPES: Mapping[str, Shape] = {
    "hard-down": hard_down,
    "cut-off": cut_off,
    "gray": gray,
    "flapping": flapping,
    "shut-out": shut_out,
    "neighbours": neighbours,
    "herd": herd,
    "third-gone": third_gone,
    "mistaken-drain": mistaken_drain,
}


def ordered(script: Script) -> Script:
    """Return the script with its changes in the order of their times."""
    return replace(script, changes=tuple(sorted(script.changes, key=lambda each: each.at_s)))
