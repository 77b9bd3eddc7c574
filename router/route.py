"""One submit's way to a region: the policy's decision, minus what refused us meanwhile."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from router.census import Census
from tradewind.errors import StoreError, StoreFull
from tradewind.fleet import Fleet
from tradewind.policy.decide import decide, refusal
from tradewind.policy.rules import Resolved
from tradewind.task import Draft
from tradewind.view import Decision, RegionView

_BY_DISTANCE: Final = frozenset({"home", "spill"})  # decisions that a later one looks back at
_MAX_MEMORY: Final = 1_024  # pairs of origin and fence; far above what a file gives rise to


class Routes:
    """Decides regions, and remembers where the last task of each origin went."""

    def __init__(self, fleet: Fleet, census: Census, draw: random.Random) -> None:
        """`draw` is the chance in spilling over."""
        self._fleet, self._census, self._draw = fleet, census, draw
        self._last: dict[tuple[str, tuple[str, ...]], str] = {}

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
        if refused:
            views = [_without(view, refused.get(view.name)) for view in views]
        decision = decide(
            draft,
            views,
            self._fleet,
            draw=self._draw.random(),
            home_hint=self._last.get((origin, resolved.fence)) if resolved else None,
            # Where the entry lives in the caller's own region, being near is what decides.
            ledger_home="" if ledger_home == origin else ledger_home,
            resolved=resolved,
            own_region=origin,
        )
        return replace(decision, ledger_home=ledger_home)

    def choose(
        self,
        draft: Draft,
        resolved: Resolved,
        ledger_home: str,
        refused: Mapping[str, StoreError],
    ) -> Decision:
        """As `decide`; raises the refusal if there is no region."""
        decision = self.decide(draft, resolved, ledger_home, refused)
        if not decision.region:
            raise refusal(decision, self._fleet)
        if decision.reason in _BY_DISTANCE:
            if len(self._last) >= _MAX_MEMORY:
                self._last.clear()
            origin = draft.origin_region or self._census.region
            self._last[origin, resolved.fence] = decision.region
        return decision


def _without(view: RegionView, error: StoreError | None) -> RegionView:
    if error is None:
        return view
    if isinstance(error, StoreFull):
        return replace(view, full=True)
    return replace(view, health="DOWN")
