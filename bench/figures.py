"""Figures: numbers taken several times, their ratios, and what may be said of them. Pure."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

#: What one measuring of one contender gave, by name of the quantity.
Metrics = Mapping[str, float]

#: What one repetition gave, by contender. One that failed is absent.
Round = Mapping[str, Metrics]

Sense = Literal[">=", "<="]


@dataclass(frozen=True, slots=True)
class Figure:
    """Median and range of a repeated measurement."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Figure":
        """Sum up at least one value."""
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        """`median (low .. high)`, or the number if there is but one."""
        if self.low == self.high:
            return number(self.median)
        return f"{number(self.median)} ({number(self.low)} .. {number(self.high)})"


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure is to be; `stretch` is what would be better still."""

    sense: Sense
    value: float
    stretch: float | None = None

    def holds(self, value: float) -> bool:
        """Whether a value is on the right side, or on the line."""
        return value >= self.value if self.sense == ">=" else value <= self.value


@dataclass(frozen=True, slots=True)
class Question:
    """One number a repetition, from what its contenders gave.

    `of` may raise KeyError: a contender is missing, and so is the number. `unit` is `x` for ratios.
    """

    name: str
    of: Callable[[Round], float]
    sense: Sense  # `>=`: more is better
    target: float | None = None
    stretch: float | None = None
    unit: str = "x"


def ratio(metric: str, over: str, *, of: str = "tradewind") -> Callable[[Round], float]:
    """`of` divided by `over`, both of the same repetition."""
    return lambda one: one[of][metric] / one[over][metric]


def only(metric: str, of: str = "tradewind") -> Callable[[Round], float]:
    """The number itself."""
    return lambda one: one[of][metric]


def answers(question: Question, rounds: Sequence[Round]) -> list[float]:
    """One value for each repetition that has what it takes."""
    values: list[float] = []
    for one in rounds:
        try:
            values.append(question.of(one))
        except (KeyError, ZeroDivisionError):
            continue
    return values


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of `values` that at least `share` (0 to 1) of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(len(ordered) * share) - 1))]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the straight line nearest to the points by least squares, y over x; 0 if all x agree."""
    mean_x = statistics.fmean(x for x, _ in points)
    mean_y = statistics.fmean(y for _, y in points)
    square = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / square if square else 0.0


def standing(target: Target, values: Sequence[float]) -> str:
    """How the values stand to their target: `holds`, `misses`, or `on the line`.

    On the line: some repetitions hold and others do not.
    """
    held = [target.holds(value) for value in values]
    if all(held):
        return "holds"
    return "on the line" if any(held) else "misses"


def number(value: float) -> str:
    """A number with as many digits as say something."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1 or not size:
        return f"{value:.2f}"
    return f"{value:.3f}"
