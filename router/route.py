"""One submit's way to a region: the policy's decision, minus what refused us meanwhile."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from router.census import Census
from tradewind.errors import StoreError, StoreFull
from tradewind.fleet import Fleet
from tradewind.policy.decide import Weighed, decide, refusal, weigh
from tradewind.policy.rules import Resolved
from tradewind.task import Draft
from tradewind.view import Decision, RegionView

_BY_DISTANCE: Final = frozenset({"home", "spill"})  # decisions that a later one looks back at
_MAX_MEMORY: Final = 1_024  # pairs of origin and fence; far above what a file gives rise to
# How long the regions as they were seen once may decide: while nothing is heard of any of them, for
# so many tasks that are alike, each drawn for itself. What these add to a region's load is small
# beside what other routers send unseen.
_LOOK_MS: Final = 5.0
_LOOK_TASKS: Final = 64


class Routes:
    """Decides regions, and remembers where the last task of each origin went."""

    def __init__(self, fleet: Fleet, census: Census, draw: random.Random) -> None:
        """`draw` is the chance in spilling over."""
        self._fleet, self._census, self._draw = fleet, census, draw
        self._last: dict[tuple[str, tuple[str, ...]], str] = {}
        self._weighed: dict[tuple[object, ...], _Look] = {}
        self._news, self._until_ms = -1, 0.0

    def decide(
        self,
        draft: Draft,
        resolved: Resolved | None,
        ledger_home: str,
        refused: Mapping[str, StoreError] | None = None,
    ) -> Decision:
        """Return the decision. Regions in `refused` count as full, or as down.

        Without `resolved`, because the rules exclude each other, it says so. A task without an
        origin comes from this router's region.
        """
        origin = draft.origin_region or self._census.region
        views = self._census.views(origin)
        if resolved is None:
            decision = decide(draft, views, self._fleet, draw=0.0, own_region=origin)
            return replace(decision, ledger_home=ledger_home)
        if refused:
            views = [_without(view, refused.get(view.name)) for view in views]
        hint = self._last.get((origin, resolved.fence))
        return self._weigh(draft, resolved, views, ledger_home, hint).decision(self._draw.random())

    def choose(
        self,
        draft: Draft,
        resolved: Resolved,
        ledger_home: str,
        refused: Mapping[str, StoreError],
    ) -> Decision:
        """As `decide`, but raises the refusal if there is no region.

        Tasks that are alike share a look at the regions. One with a key does not, which goes to the
        first region of its order that is not overloaded: there the task before it counts.
        """
        origin = draft.origin_region or self._census.region
        if refused or resolved.affinity is not None:
            decision = self.decide(draft, resolved, ledger_home, refused)
        else:
            decision = self._alike(draft, resolved, origin, ledger_home)
        if not decision.region:
            raise refusal(decision, self._fleet)
        if decision.reason in _BY_DISTANCE:
            if len(self._last) >= _MAX_MEMORY:
                self._last.clear()
            self._last[origin, resolved.fence] = decision.region
        return decision

    def _alike(self, draft: Draft, resolved: Resolved, origin: str, ledger_home: str) -> Decision:
        news, now_ms = self._census.news, self._census.now_ms()
        if news != self._news or now_ms >= self._until_ms:
            self._weighed.clear()
            self._news, self._until_ms = news, now_ms + _LOOK_MS
        hint = self._last.get((origin, resolved.fence))
        by = (resolved.rule_name, resolved.prefer, resolved.pin, resolved.fence)
        key = (draft.queue, draft.name, origin, ledger_home, hint, by)
        look = self._weighed.get(key)
        if look is None or look.left == 0:
            views = self._census.views(origin)
            weighed = self._weigh(draft, resolved, views, ledger_home, hint)
            look = self._weighed[key] = _Look(weighed, _LOOK_TASKS)
        look.left -= 1
        return look.weighed.decision(self._draw.random())

    def _weigh(
        self,
        draft: Draft,
        resolved: Resolved,
        views: Sequence[RegionView],
        ledger_home: str,
        hint: str | None,
    ) -> Weighed:
        origin = draft.origin_region or self._census.region
        weighed = weigh(
            draft,
            views,
            self._fleet,
            resolved=resolved,
            home_hint=hint,
            # Where the entry lives in the caller's own region, being near is what decides.
            ledger_home="" if ledger_home == origin else ledger_home,
            own_region=origin,
        )
        return weighed.keeping(ledger_home)


@dataclass(slots=True)
class _Look:
    weighed: Weighed
    left: int  # tasks


def _without(view: RegionView, error: StoreError | None) -> RegionView:
    if error is None:
        return view
    if isinstance(error, StoreFull):
        return replace(view, full=True)
    return replace(view, health="DOWN")
