"""What a router remembers of where its tasks went, so that it neither swings nor crowds a region.

Pure: the time, in ms of one monotonic clock, comes as an argument. All of it is one router's own.
So N routers together may move N times as fast, and may send a region N times the guests that
`limits.max_spill_in` allows, unless their views tell them how many they are.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tradewind.limits import SECOND_MS
from tradewind.policy import defaults
from tradewind.policy.choose import Choice, Memory, Option, waits_longer
from tradewind.policy.scores import capacity

#: Tasks that have the same regions to choose of; what is remembered is theirs alone.
Kind = tuple[object, ...]

_WINDOW_S: Final = int(defaults.SPILL_WINDOW_S)
_DWELL_MS: Final = defaults.DWELL_S * SECOND_MS
_A_TRIFLE: Final = 1e-9  # of a share: what rounding leaves


@dataclass(slots=True)
class _Trail:
    """Where the tasks of one kind went."""

    home: str
    left: set[str] = field(default_factory=set[str])  # homes whose tasks leave
    back_ms: dict[str, float] = field(
        default_factory=dict[str, float]
    )  # home -> when they returned
    usual: dict[str, float] = field(
        default_factory=dict[str, float]
    )  # region -> share, the most of late: it fades over DWELL_S
    at_ms: float = 0.0


class Pace:
    """The memory of one router."""

    def __init__(self) -> None:
        """Nothing was sent yet."""
        self._trails: dict[Kind, _Trail] = {}
        self._guests: dict[str, dict[int, int]] = {}  # region -> second -> tasks
        self._panics: dict[Kind, float | None] = {}  # kind in panic -> since when it is calm
        self._trials_ms: dict[str, float] = {}

    def memory(
        self, kind: Kind, options: Sequence[Option], live: float | None, now_ms: float
    ) -> Memory:
        """Return what matters to a decision now.

        `live` is `decide.live_share` of `options`; None if these are not what others see.
        """
        filled = self._filled(options, now_ms) if self._guests else ()
        panics = kind in self._panics if live is None else self._is_panic(kind, live, now_ms)
        trail = self._trails.get(kind)
        if trail is None:
            return Memory(filled=filled, panics=panics)
        bands = dict.fromkeys(trail.left, defaults.RETURN_BAND)
        settled = [home for home, at_ms in trail.back_ms.items() if now_ms - at_ms < _DWELL_MS]
        return Memory(trail.home, bands, settled, filled, panics)

    def eased(
        self, kind: Kind, choice: Choice, pool: Sequence[Option], now_ms: float
    ) -> dict[str, float]:
        """Return shares on the way to what `choice` wants: what may not leave yet stays at home.

        A share abroad rises no faster than slew over what is usual for it. So tasks may come and go
        with the queue at home, and only a new wish is followed slowly. At once where the home of
        before is out, where tasks return home, and where its queue is long: then those that wait
        for a slow move wait longer than a herd would make them.
        """
        trail = self._trails.get(kind)
        if trail is None or not choice.leaves:
            return choice.shares
        by_name = {option.name: option for option in pool}
        if trail.home not in by_name:
            return choice.shares
        if waits_longer(by_name[choice.home], pool, defaults.SLEW_PATIENCE_S):
            return choice.shares
        risen = defaults.SLEW_PER_S * max(0.0, now_ms - trail.at_ms) / SECOND_MS
        shares = {
            name: min(share, trail.usual.get(name, 0.0) + risen)
            for name, share in choice.shares.items()
            if name != choice.home
        }
        shares[choice.home] = 1 - sum(shares.values())
        return {name: share for name, share in shares.items() if share > _A_TRIFLE}

    def keep(self, kind: Kind, choice: Choice, shares: Mapping[str, float], now_ms: float) -> None:
        """Remember a decision in which distance had a part."""
        if not choice.home:
            return
        trail = self._trails.get(kind)
        if trail is None:
            if len(self._trails) >= defaults.MAX_MEMORY:
                self._trails.clear()
            trail = self._trails[kind] = _Trail(choice.home)
        faded = math.exp(min(0.0, trail.at_ms - now_ms) / _DWELL_MS)
        usual = {name: share * faded for name, share in trail.usual.items() if share > _A_TRIFLE}
        for name, share in shares.items():
            usual[name] = max(usual.get(name, 0.0), share)
        trail.home, trail.usual, trail.at_ms = choice.home, usual, now_ms
        if choice.leaves:
            trail.left.add(choice.home)
        elif choice.home in trail.left:
            trail.left.discard(choice.home)
            trail.back_ms[choice.home] = now_ms

    def guest(self, region: str, now_ms: float) -> None:
        """Count a task that was sent to `region` though its home is another."""
        second = int(now_ms / SECOND_MS)
        seconds = self._guests.setdefault(region, {})
        if second not in seconds:
            for old in [each for each in seconds if each <= second - _WINDOW_S]:
                del seconds[old]
        seconds[second] = seconds.get(second, 0) + 1

    def guests(self, region: str, now_ms: float) -> int:
        """Return how many came in the last SPILL_WINDOW_S."""
        since = int(now_ms / SECOND_MS) - _WINDOW_S
        return sum(count for second, count in self._guests[region].items() if second > since)

    def may_try(self, region: str, now_ms: float) -> bool:
        """Whether it is time for another trial task to a half-open region."""
        sent_ms = self._trials_ms.get(region)
        return sent_ms is None or now_ms - sent_ms >= defaults.TRIAL_EVERY_MS

    def tried(self, region: str, now_ms: float) -> None:
        """Remember a trial task."""
        self._trials_ms[region] = now_ms

    def _filled(self, options: Sequence[Option], now_ms: float) -> frozenset[str]:
        """Regions that had their share of this router's guests: of what they complete, at least 1.

        A share of what it could complete: an idle region's own rate is none. Of a region whose
        workers are not known yet, there is no share.
        """
        full: list[str] = []
        for option in options:
            if option.name in self._guests and (option.view.slots or option.view.rate):
                share = option.region.limits.max_spill_in / max(1, option.view.routers)
                limit = max(1.0, share * capacity(option.view) * _WINDOW_S)
                if self.guests(option.name, now_ms) >= limit:
                    full.append(option.name)
        return frozenset(full)

    def _is_panic(self, kind: Kind, live: float, now_ms: float) -> bool:
        """Panic begins below PANIC_BELOW, and ends after PANIC_CALM_S at PANIC_UNTIL or more."""
        if kind not in self._panics:
            if live >= defaults.PANIC_BELOW:
                return False
            if len(self._panics) >= defaults.MAX_MEMORY:
                self._panics.clear()
            self._panics[kind] = None
        elif live < defaults.PANIC_UNTIL:
            self._panics[kind] = None
        else:
            calm_ms = self._panics[kind]
            if calm_ms is None:
                self._panics[kind] = now_ms
            elif now_ms - calm_ms >= defaults.PANIC_CALM_S * SECOND_MS:
                del self._panics[kind]
                return False
        return True
