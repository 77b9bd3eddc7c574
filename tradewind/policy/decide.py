"""Picks the region for a task. Pure: equal arguments give an equal decision.

Order of the steps (docs/routing.md, One decision); the first that applies decides:
1. filter: regions that cannot take the task fall out, each with its reason;
2. trial: a half-open region that may have one task now gets it, of those that live there;
3. pin, and affinity `required`: one region or none;
4. rule.prefer: while any preferred region is left, only these count;
5. affinity `preferred`: along the key's rendezvous order to the first that is not overloaded;
6. prefer: the rule's first, while its wait is within the band of the shortest one among these
   (the rule's order outweighs distance, never a queue), else step 9;
7. the home of the ledger entry, within the band of the best score: saves a round trip;
8. home, the nearest by round trip, within the band; once tasks leave they return only within half
   of it (`Memory` of a router); while home recovers it gets its ramp's share of them. Where the
   nearest of all permitted regions is full or out, so that another is home, it is a `detour`;
9. softmin over the scores, flatter the older the data: the best of stale numbers draws a herd.
   Regions that have their share of guests (limits.max_spill_in) are left out while home is in, and
   one that came back is not sent what waits elsewhere all at once: `guests`.
If nothing is left at step 1: regions of weight 0 that failover.order names for home, in its order.
Then panic: if what is left is merely in doubt (`filters.DOUBTS`), mode `best_effort` sends there,
by the slots last known; never across the fence, to a drained region or one known to be down. Panic
also lets regions in of which nothing is known, if less than half of the slots of all permitted
regions live. What is then overlooked stays in the candidate; if nothing but workers is missing, the
reason is `unserved` instead of `panic`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tradewind.errors import NoRegionPermitted, NoRegionReachable, RegionsFull, TradewindError
from tradewind.fleet import Fleet
from tradewind.policy import defaults, filters, scores
from tradewind.policy.choose import (
    DETOUR,
    HOME,
    NO_MEMORY,
    Choice,
    Memory,
    Option,
    Wish,
    bypassed,
    choose,
    only_affine,
    standby,
)
from tradewind.policy.guests import on_trial, only_settled, only_welcome, rationed
from tradewind.policy.rules import UNSERVED, Resolved, matching, resolve
from tradewind.task import Draft
from tradewind.view import Candidate, Decision, RegionView, known_for_s

PANIC = "panic"
_FENCES = f"{filters.OUTSIDE_FENCE}: "  # what follows says which fences leave nothing


@dataclass(slots=True)
class Weighed:
    """All of a decision but the chance in it: for any number of tasks that are alike."""

    choice: Choice
    pool: Sequence[Option]  # what it chose from
    _options: Sequence[Option]
    _wish: Wish
    _ledger_home: str  # that decisions name
    _reason: str  # instead of the step's, if anything has to be overlooked
    _bypassed: str = ""  # would be home if it were in
    _drawn: dict[str, Decision] = field(default_factory=dict[str, Decision])
    _explained: tuple[Candidate, ...] = ()

    @property
    def is_drawn(self) -> bool:
        """Whether chance has a part in it."""
        return len(self.choice.shares) > 1

    def decision(self, draw: float) -> Decision:
        """Return the decision for one task. `draw` is in [0, 1)."""
        if not self._explained:
            self._explained = self._candidates()
        return replace(self.bare(draw), candidates=self._explained)

    def bare(self, draw: float) -> Decision:
        """Return the same without the candidates: what a submit needs."""
        region = self.choice.drawn(draw)
        drawn = self._drawn.get(region)
        if drawn is None:
            reason = (region and self._reason) or self.choice.reasons[region]
            if self._bypassed and reason == HOME:
                reason = DETOUR
            resolved, version = self._wish.resolved, self._wish.fleet.version
            drawn = self._drawn[region] = Decision(
                region,
                resolved.rule_name,
                (),
                resolved.fence,
                self._ledger_home,
                reason,
                version,
                self.choice.home,
                self.choice.leaves,
                self._bypassed,
            )
        return drawn

    def is_unserved(self, region: str) -> bool:
        """Whether workers are known in `region` and none runs them, so that they would wait."""
        return any(o.name == region and filters.NO_HANDLER in o.excluded for o in self.pool)

    def shared(self, shares: dict[str, float]) -> "Weighed":
        """The same with other shares, of regions that are in."""
        if shares == self.choice.shares:
            return self
        reasons = {name: self.choice.reasons.get(name, "spill") for name in shares}
        choice = self.choice._replace(shares=shares, reasons=reasons)
        return replace(self, choice=choice, _drawn={}, _explained=())

    def _candidates(self) -> tuple[Candidate, ...]:
        shares, chosen = self.choice.shares, {option.name for option in self.pool}
        return tuple(
            Candidate(
                region=option.name,
                eligible=option.name in chosen,
                excluded_by=option.excluded[0] if option.excluded else "",
                rtt_ms=option.view.rtt_ms,
                expected_wait_s=option.wait_s,
                score_s=option.score_s,
                share=shares.get(option.name, 0.0),
                reasons=option.excluded,
                parts=scores.parts(option.view, option.region, self._wish.fleet, option.wait_s),
                age_s=known_for_s(option.view),
                health=option.view.health,
                trial=option.view.trial,
                details=filters.details(option.view, option.excluded) if option.excluded else {},
            )
            for option in self._options
        )


def decide(
    draft: Draft,
    views: Sequence[RegionView],
    fleet: Fleet,
    *,
    draw: float,
    memory: Memory = NO_MEMORY,
    ledger_home: str = "",
    resolved: Resolved | None = None,
    own_region: str = "",
) -> Decision:
    """Pick a region for `draft`, or none (region "", reason says why; see `refusal`).

    `draw` in [0, 1) is the only chance in it. `resolved` saves resolving the rules a second time.
    `own_region` is the router's, the origin of a task without one: of equally near regions the
    origin is home. `ledger_home` keeps the ledger entry. A configured region without a view counts
    as unknown.
    """
    if resolved is None:
        try:
            resolved = resolve(draft, fleet)
        except NoRegionPermitted as why:
            return _nowhere(draft, views, fleet, ledger_home, str(why))
    return weigh(
        draft,
        views,
        fleet,
        resolved=resolved,
        memory=memory,
        ledger_home=ledger_home,
        own_region=own_region,
    ).decision(draw)


def weigh(
    draft: Draft,
    views: Sequence[RegionView],
    fleet: Fleet,
    *,
    resolved: Resolved,
    memory: Memory = NO_MEMORY,
    ledger_home: str = "",
    own_region: str = "",
) -> Weighed:
    """Weigh the regions for `draft`, and for every task with its queue, name and origin.

    The arguments are those of `decide`.
    """
    wish = Wish(resolved, fleet, ledger_home, draft.origin_region or own_region, memory)
    options = survey(draft, views, fleet, resolved=resolved)
    return compare(options, wish, shown_home=ledger_home)


def survey(
    draft: Draft,
    views: Sequence[RegionView],
    fleet: Fleet,
    *,
    resolved: Resolved,
    borders: Sequence[tuple[str, ...]] | None = None,
) -> list[Option]:
    """Look at every region for `draft`, in the order of the file: equal for equal queue and name.

    `borders`: what `filters.borders` gives, if that is known.
    """
    by_name = {view.name: view for view in views}
    if borders is None:
        borders = filters.borders(fleet, resolved.fence, resolved.pin)
    options: list[Option] = []
    for (name, region), barred in zip(fleet.regions.items(), borders, strict=True):
        view = by_name.get(name) or _unseen(name)
        ahead = scores.ahead(view)
        wait = ahead / scores.capacity(view) if ahead > 0 else 0.0
        excluded = filters.conditions(view, region, fleet, draft.queue, draft.name, wait)
        if barred:
            excluded = (*barred, *excluded)
        score = scores.score_s(view, region, fleet, wait)
        options.append(Option(name, region, view, ahead, wait, score, excluded))
    return options


def compare(options: Sequence[Option], wish: Wish, *, shown_home: str = "") -> Weighed:
    """Weigh what `survey` found. `shown_home` is the ledger home that decisions name."""
    resolved, fleet = wish.resolved, wish.fleet
    options = only_settled(only_welcome(only_affine(options, resolved), wish), wish)
    pool = [option for option in options if not option.excluded]
    overlooked = ""
    choice = on_trial(options, wish)
    if choice is not None:
        pool += [option for option in options if option.name == choice.best]
    elif not pool and (choice := standby(options, wish)):
        pool = [option for option in options if option.name == choice.best]
    elif fleet.panic_mode == "best_effort":
        pool, overlooked = _overlooking(options, pool, wish.memory)
    if choice is None:
        choice = choose(pool, wish, panics=overlooked == PANIC)
        choice, pool = rationed(choice, pool, options, wish)
    nearer = ""
    if choice.home and not overlooked and len(pool) < len(options):
        nearer = bypassed(options, wish, choice.home)
    return Weighed(choice, pool, options, wish, shown_home, overlooked, nearer)


def live_share(options: Sequence[Option]) -> float:
    """Share of the slots of all permitted regions that live, by weight; 1 if none is permitted.

    A region that is down has none; what an operator has taken out does not count.
    """
    total = live = 0.0
    for option in options:
        if not _TAKEN_OUT.isdisjoint(option.excluded):
            continue
        weight = option.region.weight
        total += weight
        if _AWAY.isdisjoint(option.excluded):
            live += weight * option.view.live_share
    return live / total if total else 1.0


_TAKEN_OUT = filters.BY_POLICY | filters.BY_OPERATOR
_AWAY = frozenset({filters.DOWN, filters.KEPT_OUT, filters.HALF_OPEN})


def _overlooking(
    options: Sequence[Option], pool: list[Option], memory: Memory
) -> tuple[list[Option], str]:
    """Return the regions to choose from, and why some of them are in spite of what is known."""
    if not pool:
        doubtful = [option for option in options if filters.DOUBTS.issuperset(option.excluded)]
        unserved = all(filters.NOBODY_RUNS_IT.issuperset(o.excluded) for o in doubtful)
        return doubtful, UNSERVED if unserved else PANIC
    panics = memory.panics
    if panics is False:
        return pool, ""
    silent = [option for option in options if option.excluded == (filters.UNKNOWN,)]
    if silent and (panics or live_share(options) < defaults.PANIC_BELOW):
        return [*pool, *silent], PANIC
    return pool, ""


def refusal(decision: Decision, fleet: Fleet, *, draw: float = 0.0) -> TradewindError:
    """Return the error for a decision without a region, with what keeps each permitted one out.

    `draw` in [0, 1) spreads the callers that on_panic: reject turns away.
    """
    if any(c.excluded_by.startswith(_FENCES) for c in decision.candidates):
        return NoRegionPermitted(decision.reason)
    reasons = {c.region: c.excluded_by for c in decision.candidates if not c.eligible}
    permitted = {
        region: reason
        for region, reason in reasons.items()
        if reason not in filters.BY_POLICY and reason != filters.NOT_AFFINITY
    }
    more = {c.region: _told(c) for c in decision.candidates}
    listed = ", ".join(
        f"{region}: {reason}{more[region]}" for region, reason in (permitted or reasons).items()
    )
    if not permitted:
        return NoRegionPermitted(
            f"residency, pin and weights leave no region ({listed}); change the task, or the "
            f"rules of policy {fleet.version}"
        )
    if filters.BY_LOAD.issuperset(permitted.values()):
        return RegionsFull(f"every permitted region is full ({listed}); retry later")
    found = NoRegionReachable(f"no permitted region can take the task now ({listed}); retry later")
    if fleet.panic_mode == "reject":
        low_ms, high_ms = defaults.REJECT_RETRY_MIN_MS, defaults.REJECT_RETRY_MAX_MS
        found.retry_after_ms = low_ms + round(draw * (high_ms - low_ms))
    return found


def _told(candidate: Candidate) -> str:
    reason = candidate.excluded_by
    said = candidate.details.get(reason, "") if reason in filters.TOLD_WHEN_REFUSED else ""
    if reason == filters.DURABILITY:
        said = f"{said}{said and '; '}see `tradewind doctor`"
    return f" ({said})" if said else ""


def _unseen(name: str) -> RegionView:
    return RegionView(name, rtt_ms=defaults.UNSEEN_RTT_MS, health="UNKNOWN")


def _nowhere(
    draft: Draft, views: Sequence[RegionView], fleet: Fleet, ledger_home: str, why: str
) -> Decision:
    """Explain fences that leave nothing: each region says which ones."""
    rtts_ms = {view.name: view.rtt_ms for view in views}
    excluded = f"{_FENCES}{why.partition(';')[0]}"
    return Decision(
        region="",
        rule=matching(draft, fleet).name,
        candidates=tuple(
            Candidate(
                region=name,
                eligible=False,
                excluded_by=excluded,
                rtt_ms=rtts_ms.get(name, math.inf),
                expected_wait_s=math.inf,
                score_s=math.inf,
                share=0.0,
                reasons=(excluded,),
            )
            for name in fleet.regions
        ),
        fence=(),
        ledger_home=ledger_home,
        reason=why,
        policy_version=fleet.version,
    )
