"""How long attempts take, by handler name: what the heartbeats of a worker tell routers.

Of each name it is the mean of about the last ten that ended, or more if those that run now show
that it must be more. Their mean age is the least that they take. But where there are few of them,
or times differ much, the mean of some that are under way is above that of all by chance, and so
often that the capacity of every region would seem less than it is. So it counts only as far as it
is no chance: where an attempt takes s seconds on average, and ends at any time alike, none ends in
t seconds in handlers with probability exp(-t / s), so one time in a hundred for s = t / 4.6.

The mean over all names is that over the attempts begun lately, ended or not: of those that run, the
long ones are more than their share, and of those that have ended the short ones are, for a while.
Pure: times are ms of a monotonic clock.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tradewind.crew import LATELY_MS
from tradewind.limits import MAX_TIMINGS, SECOND_MS
from tradewind.policy.defaults import SERVICE_S
from tradewind.task import Timing

_WEIGHT: Final = 0.1  # of the newest attempt in the mean: about the last ten count
_SURE: Final = math.log(100)  # how much more than the mean passes without an end by chance: 1 %
_KEPT: Final = 4 * MAX_TIMINGS  # names; above it the quarter that ended longest ago is forgotten
_LEAST_S: Final = 1e-6  # 0 would say that nothing is known
_SHORT_S: Final = 0.01  # what began less long ago than a thousandth of LATELY_MS began just now
_LONG: Final = 20.0  # times LATELY_MS; what began longer ago counts as if it had begun then


@dataclass(slots=True)
class _Known:
    """What has ended of one name."""

    mean_s: float
    ended_ms: float  # the latest
    begun: float = 0.0  # attempts, by how long before that they began


@dataclass(slots=True)
class _Now:
    """What runs of one name."""

    count: int = 0
    age_ms: float = 0.0  # of all together
    since_ms: float = 0.0  # likewise, but since the latest end
    begun: float = 0.0


class Timings:
    """Written by the main loop; `told` may be called in another thread: it copies what it reads."""

    def __init__(self) -> None:
        """Nothing has ended yet."""
        self._known: dict[str, _Known] = {}

    def ended(self, now_ms: float, ended: Sequence[tuple[str, float]]) -> None:
        """Attempts ended just now: of each its name and its seconds in the handler."""
        known = self._known
        for name, took_s in ended:
            of_name = known.get(name)
            if of_name is None:
                of_name = self._add(name, _Known(took_s, now_ms))
            elif of_name.ended_ms != now_ms:
                of_name.begun *= math.exp((of_name.ended_ms - now_ms) / LATELY_MS)
                of_name.ended_ms = now_ms
            of_name.mean_s += _WEIGHT * (took_s - of_name.mean_s)
            of_name.begun += 1.0 if took_s < _SHORT_S else _share(took_s * SECOND_MS)

    def told(
        self, now_ms: float, running: Sequence[tuple[str, float]]
    ) -> tuple[float, Mapping[str, Timing]]:
        """Return the mean seconds over all names, 0 if unknown, and what is told of each.

        `running` has the name of each attempt that is in its handler, and when it began.
        """
        known, now = self._known.copy(), dict[str, _Now]()
        for name, began_ms in running:
            of_name, age_ms = now.setdefault(name, _Now()), max(0.0, now_ms - began_ms)
            ended_ms = known[name].ended_ms if name in known else -math.inf
            of_name.count += 1
            of_name.age_ms += age_ms
            of_name.since_ms += min(age_ms, max(0.0, now_ms - ended_ms))
            of_name.begun += _share(age_ms)
        names = dict.fromkeys([*known, *now])
        means_s = {name: _mean_s(known.get(name), now.get(name)) for name in names}
        # Where all began long ago, they count by when they began: no weight is 0 then.
        last_ms = now_ms if now else max((each.ended_ms for each in known.values()), default=now_ms)
        begun = {name: now[name].begun if name in now else 0.0 for name in names}
        for name, each in known.items():
            begun[name] += each.begun * math.exp((each.ended_ms - last_ms) / LATELY_MS)
        faded = math.exp((last_ms - now_ms) / LATELY_MS)
        newest = sorted(
            names, key=lambda name: math.inf if name in now else known[name].ended_ms, reverse=True
        )
        return _over_all(means_s, begun), {
            name: Timing(means_s[name], begun[name] * faded) for name in newest[:MAX_TIMINGS]
        }

    def _add(self, name: str, known: _Known) -> _Known:
        if len(self._known) >= _KEPT:
            oldest = sorted(self._known, key=lambda each: self._known[each].ended_ms)
            for each in oldest[: _KEPT // 4]:
                del self._known[each]
        self._known[name] = known
        return known


def _share(ago_ms: float) -> float:
    """How much an attempt counts that began so long ago."""
    return math.exp(-min(ago_ms / LATELY_MS, _LONG))


def _mean_s(known: _Known | None, now: _Now | None) -> float:
    """How long attempts of one name take; 0 if nobody can tell."""
    shown_s = now.age_ms / now.count / SECOND_MS if now else 0.0
    if known is None:  # none has ended: those that run take longer than a guess, or say nothing
        return shown_s if shown_s > SERVICE_S else 0.0
    sure_s = now.since_ms / _SURE / SECOND_MS if now else 0.0
    return max(_LEAST_S, known.mean_s, min(shown_s, sure_s))


def _over_all(means_s: Mapping[str, float], begun: Mapping[str, float]) -> float:
    total = sum(begun.values())
    if not total or not any(means_s.values()):
        return 0.0
    return sum(n * (means_s[name] or SERVICE_S) for name, n in begun.items()) / total
