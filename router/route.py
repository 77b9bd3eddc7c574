"""One submit's way to a region: the policy's decision, minus what refused us meanwhile."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from router.census import Census
from router.decisions import Decisions
from router.pace import Kind, Pace
from tradewind.errors import StoreError, StoreFull
from tradewind.fleet import Fleet
from tradewind.limits import SECOND_MS
from tradewind.policy import affinity, filters
from tradewind.policy.choose import TRIAL, Memory, Option, Wish
from tradewind.policy.decide import PANIC, Weighed, compare, decide, live_share, refusal, survey
from tradewind.policy.defaults import LEAST_TASKS, LOOK_MS, LOOK_TASKS, MAX_MEMORY
from tradewind.policy.rules import UNSERVED, Resolved
from tradewind.policy.scores import capacity
from tradewind.task import Draft
from tradewind.view import Decision, RegionView

_SPILL: Final = "spill"
_MAY_BE_UNSERVED: Final = frozenset({UNSERVED, PANIC})
_NOT_A_CHOICE: Final = filters.BY_POLICY | filters.NOBODY_RUNS_IT | {filters.DURABILITY}
_NOBODY_REFUSED: Final[Mapping[str, StoreError]] = {}


class Routes:
    """Decides regions, and remembers at which pace tasks moved."""

    def __init__(
        self,
        fleet: Fleet,
        census: Census,
        draw: random.Random,
        decisions: Decisions | None = None,
    ) -> None:
        """`draw` is the chance in spilling over, for tasks without a request_id.

        `decisions` is told of each that `choose` makes.
        """
        self._fleet, self._census, self._draw = fleet, census, draw
        self._decisions = decisions
        self._pace = Pace()
        self._borders: dict[tuple[tuple[str, ...], str], tuple[tuple[str, ...], ...]] = {}
        self._looks: dict[tuple[object, ...], _Look] = {}
        self._news, self._until_ms = -1, 0.0
        #: Whether the next decision should see the tasks before it where they went.
        self.is_spent = False

    def decide(
        self,
        draft: Draft,
        resolved: Resolved | None,
        ledger_home: str,
        refused: Mapping[str, StoreError] = _NOBODY_REFUSED,
    ) -> Decision:
        """Return the decision with all that there is to say of it: what `choose` does now.

        Regions in `refused` count as full, or as down. Without `resolved`, because the rules
        exclude each other, it says so. A task without an origin comes from this router's region.
        """
        if resolved is None:
            views = self._census.views(draft.origin_region or self._census.region)
            decision = decide(draft, views, self._fleet, draw=0.0)
            return replace(decision, ledger_home=ledger_home)
        weighed, _ = self._look(draft, resolved, ledger_home, refused)
        return weighed.decision(self._chance(draft, weighed))

    def choose(
        self,
        draft: Draft,
        resolved: Resolved,
        ledger_home: str,
        refused: Mapping[str, StoreError] = _NOBODY_REFUSED,
        *,
        explained: bool = False,
    ) -> Decision:
        """Decide, and count the task as sent there. Raises the refusal if there is no region.

        What is said of each region is left out unless `explained`.
        """
        weighed, look = self._look(draft, resolved, ledger_home, refused)
        draw = self._chance(draft, weighed)
        decision = weighed.bare(draw)
        if self._decisions is not None:
            self._decisions.made(draft, weighed, draw, decision)
        region = decision.region
        if not region:
            raise refusal(weighed.decision(draw), self._fleet, draw=self._draw.random())
        look.left -= 1
        self.is_spent = look.left <= 0 or resolved.affinity is not None
        if resolved.affinity is not None:
            look.since[region] = look.since.get(region, 0) + 1
        if decision.reason == _SPILL:
            self._pace.guest(region, self._census.now_ms())
        elif decision.reason == TRIAL:
            self._pace.tried(region, self._census.now_ms())
            self._looks.clear()
        elif decision.reason in _MAY_BE_UNSERVED and weighed.is_unserved(region):
            self._census.send_unserved(region)
        return weighed.decision(draw) if explained else decision

    def _chance(self, draft: Draft, weighed: Weighed) -> float:
        """Draw for a task: by its request_id, so that a repeat and `explain` draw the same."""
        if not weighed.is_drawn:
            return 0.0
        if not draft.request_id:
            return self._draw.random()
        return affinity.fraction(draft.request_id.encode(), self._fleet.version)

    def _look(
        self,
        draft: Draft,
        resolved: Resolved,
        ledger_home: str,
        refused: Mapping[str, StoreError],
    ) -> "tuple[Weighed, _Look]":
        """Weigh the regions as they are, or as they were a moment ago for a task that is alike.

        Tasks with a key share the look, but not what follows: they go to the first region of their
        order that is not overloaded, and there the task before counts.
        """
        origin = draft.origin_region or self._census.region
        if refused:
            look = self._survey(draft, resolved, origin, refused)
            return self._weigh(look, resolved, origin, ledger_home, is_kept=False), look
        news, now_ms = self._census.news, self._census.now_ms()
        if news != self._news or now_ms >= self._until_ms:
            self._looks.clear()
            self._news, self._until_ms = news, now_ms + LOOK_MS
        key = (draft.queue, draft.name, origin, resolved.fence, resolved.pin)
        look = self._looks.get(key)
        if look is None or look.left <= 0:
            look = self._looks[key] = self._survey(draft, resolved, origin, refused)
        if resolved.affinity is not None:
            return self._weigh(look, resolved, origin, ledger_home), look
        by = (ledger_home, resolved.rule_name, resolved.prefer)
        weighed = look.weighed.get(by)
        if weighed is None:
            weighed = look.weighed[by] = self._weigh(look, resolved, origin, ledger_home)
            if look.is_choice:
                look.left = min(look.left, self._room(weighed, draft.name))
        return weighed, look

    def _room(self, weighed: Weighed, name: str) -> int:
        """Return for how many tasks a look may decide: about as many as home takes within the band.

        Nobody else has sent those yet, and no report tells of them.
        """
        choice = weighed.choice
        if choice.leaves or not choice.home:
            return LOOK_TASKS
        home = next(option for option in weighed.pool if option.name == choice.home)
        if not home.view.slots:  # nobody knows what it takes
            return LOOK_TASKS
        rate = capacity(home.view)
        takes_s = self._census.takes_s(home.name, name)
        if takes_s > home.view.service_s > 0:  # those that are there take less
            rate *= home.view.service_s / takes_s
        room = 1 - home.ahead + self._fleet.steering.band_min_ms / SECOND_MS * rate
        return int(max(LEAST_TASKS, min(room, LOOK_TASKS)))

    def _survey(
        self,
        draft: Draft,
        resolved: Resolved,
        origin: str,
        refused: Mapping[str, StoreError],
    ) -> "_Look":
        now_ms = self._census.now_ms()
        views = [
            self._shown(view, refused, now_ms) if refused or view.trial else view
            for view in self._census.views(origin)
        ]
        fenced = (resolved.fence, resolved.pin)
        borders = self._borders.get(fenced)
        if borders is None:
            if len(self._borders) >= MAX_MEMORY:
                self._borders.clear()
            borders = self._borders[fenced] = filters.borders(self._fleet, *fenced)
        options = survey(draft, views, self._fleet, resolved=resolved, borders=borders)
        able = [o.name for o in options if _NOT_A_CHOICE.isdisjoint(o.excluded)]
        return _Look(options, (origin, resolved.fence, *able), now_ms, is_choice=len(able) > 1)

    def _shown(
        self, view: RegionView, refused: Mapping[str, StoreError], now_ms: float
    ) -> RegionView:
        error = refused.get(view.name)
        if error is not None:
            if isinstance(error, StoreFull):
                return replace(view, full=True)
            return replace(view, health="DOWN", trial=False, kept_out=False)
        if view.trial and (view.in_flight or not self._pace.may_try(view.name, now_ms)):
            return replace(view, health="DOWN", trial=False)
        return view

    def _weigh(
        self,
        look: "_Look",
        resolved: Resolved,
        origin: str,
        ledger_home: str,
        *,
        is_kept: bool = True,
    ) -> Weighed:
        """Weigh at the pace of this router; `is_kept` unless what is seen is one task's alone."""
        kind: Kind = (*look.kind, *resolved.prefer)
        memory = look.memories.get(resolved.prefer)
        if memory is None:
            live = live_share(look.options) if is_kept else None
            memory = self._pace.memory(kind, look.options, live, look.at_ms)
            memory = look.memories[resolved.prefer] = replace(memory, since=look.since)
        # Where the entry lives in the caller's own region, being near is what decides.
        near = "" if ledger_home == origin else ledger_home
        wish = Wish(resolved, self._fleet, near, origin, memory)
        weighed = compare(look.options, wish, shown_home=ledger_home)
        if not weighed.choice.home:
            return weighed
        shares = self._pace.eased(kind, weighed.choice, weighed.pool, look.at_ms)
        if is_kept:
            self._pace.keep(kind, weighed.choice, shares, look.at_ms)
        return weighed.shared(shares)


@dataclass(slots=True)
class _Look:
    """The regions as seen once. It decides so many tasks that are alike: see LOOK_TASKS."""

    options: Sequence[Option]
    kind: Kind
    at_ms: float
    is_choice: bool  # whether more than one region could take them, as a rule
    left: int = LOOK_TASKS
    since: dict[str, int] = field(default_factory=dict[str, int])  # tasks with a key, sent since
    memories: dict[tuple[str, ...], Memory] = field(default_factory=dict[tuple[str, ...], Memory])
    weighed: dict[tuple[object, ...], Weighed] = field(
        default_factory=dict[tuple[object, ...], Weighed]
    )
