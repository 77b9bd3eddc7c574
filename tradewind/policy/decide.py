"""Picks the region for a task. Pure: equal arguments give an equal decision.

Order of the steps (routing.md 2.2 to 2.5 and 2.8); the first that applies decides:
1. filter: regions that cannot take the task fall out, each with its reason;
2. pin, and affinity `required`: one region or none;
3. rule.prefer: while any preferred region is left, only these count;
4. affinity `preferred`: along the key's rendezvous order to the first that is not overloaded;
5. prefer: the rule's first, while its wait is within the band of the shortest one among these
   (the rule's order outweighs distance, never a queue), else step 8;
6. the home of the ledger entry, within the band of the best score: saves a round trip;
7. home, the nearest by round trip, within the band (half of it to return from abroad);
8. softmin over the scores, flatter the older the data: the best of stale numbers draws a herd.
Panic: if nothing is left at step 1 but regions that are merely in doubt (`filters.DOUBTS`), mode
`best_effort` sends to these; never across the fence, to a drained region or one known to be down.
What is then overlooked stays in the candidate; if nothing but workers is missing, the reason is
`unserved` instead of `panic`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tradewind.errors import NoRegionPermitted, NoRegionReachable, RegionsFull, TradewindError
from tradewind.fleet import Fleet
from tradewind.policy import filters, scores
from tradewind.policy.choose import Choice, Option, Wish, choose, only_affine
from tradewind.policy.rules import UNSERVED, Resolved, matching, resolve
from tradewind.task import Draft
from tradewind.view import Candidate, Decision, RegionView

PANIC = "panic"
_FENCES = f"{filters.OUTSIDE_FENCE}: "  # what follows says which fences leave nothing


@dataclass(slots=True)
class Weighed:
    """All of a decision but the chance in it: for any number of tasks that are alike."""

    _choice: Choice
    _shown: Decision  # as if no region had been drawn
    _reason: str  # instead of the step's, if anything has to be overlooked
    _drawn: dict[str, Decision] = field(default_factory=dict[str, Decision])

    def decision(self, draw: float) -> Decision:
        """Return the decision for one task. `draw` is in [0, 1)."""
        region = self._choice.drawn(draw)
        drawn = self._drawn.get(region)
        if drawn is None:
            reason = (region and self._reason) or self._choice.reasons[region]
            drawn = self._drawn[region] = replace(self._shown, region=region, reason=reason)
        return drawn

    def keeping(self, ledger_home: str) -> "Weighed":
        """The same, whose decisions name `ledger_home` though it had no part in them."""
        return Weighed(self._choice, replace(self._shown, ledger_home=ledger_home), self._reason)


def decide(
    draft: Draft,
    views: Sequence[RegionView],
    fleet: Fleet,
    *,
    draw: float,
    home_hint: str | None = None,
    ledger_home: str = "",
    resolved: Resolved | None = None,
    own_region: str = "",
) -> Decision:
    """Pick a region for `draft`, or none (region "", reason says why; see `refusal`).

    `draw` in [0, 1) is the only chance in it. The others are those of `weigh`. `resolved` saves
    resolving the rules a second time.
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
        home_hint=home_hint,
        ledger_home=ledger_home,
        own_region=own_region,
    ).decision(draw)


def weigh(
    draft: Draft,
    views: Sequence[RegionView],
    fleet: Fleet,
    *,
    resolved: Resolved,
    home_hint: str | None = None,
    ledger_home: str = "",
    own_region: str = "",
) -> Weighed:
    """Weigh the regions for `draft`, and for every task with its queue, name and origin.

    `home_hint` is where the caller's last task went that a "home" or "spill" decided (None: no
    memory): while that is abroad, home must be clearly better before tasks return. `own_region` is
    the router's, the origin of a task without one: of equally near regions the origin is home.
    `ledger_home` keeps the ledger entry. A configured region without a view counts as unknown.
    """
    options = _options(draft, views, fleet, resolved)
    options = only_affine(options, resolved)
    pool = [option for option in options if not option.excluded]
    doubt = ""
    if not pool and fleet.panic_mode == "best_effort":
        pool = [option for option in options if filters.DOUBTS.issuperset(option.excluded)]
        unserved = all(filters.NOBODY_RUNS_IT.issuperset(option.excluded) for option in pool)
        doubt = UNSERVED if unserved else PANIC
    origin = draft.origin_region or own_region
    choice = choose(pool, Wish(resolved, fleet, home_hint, ledger_home, origin))
    chosen = {option.name for option in pool}
    shown = Decision(
        region="",
        rule=resolved.rule_name,
        candidates=tuple(
            Candidate(
                region=option.name,
                eligible=option.name in chosen,
                excluded_by=next(iter(option.excluded), ""),
                rtt_ms=option.view.rtt_ms,
                expected_wait_s=option.wait_s,
                score_s=option.score_s,
                share=choice.shares.get(option.name, 0.0),
            )
            for option in options
        ),
        fence=resolved.fence,
        ledger_home=ledger_home,
        policy_version=fleet.version,
    )
    return Weighed(choice, shown, doubt)


def refusal(decision: Decision, fleet: Fleet) -> TradewindError:
    """Return the error for a decision without a region, with what keeps each region out."""
    if any(c.excluded_by.startswith(_FENCES) for c in decision.candidates):
        return NoRegionPermitted(decision.reason)
    reasons = {c.region: c.excluded_by for c in decision.candidates if not c.eligible}
    listed = ", ".join(f"{region}: {reason}" for region, reason in reasons.items())
    waiting = {
        reason
        for reason in reasons.values()
        if reason not in filters.BY_POLICY and reason != filters.NOT_AFFINITY
    }
    if not waiting:
        return NoRegionPermitted(
            f"residency, pin and weights leave no region ({listed}); change the task, or the "
            f"rules of policy {fleet.version}"
        )
    if waiting <= filters.BY_LOAD:
        return RegionsFull(f"every permitted region is full ({listed}); retry later")
    return NoRegionReachable(f"no permitted region can take the task now ({listed}); retry later")


def _options(
    draft: Draft, views: Sequence[RegionView], fleet: Fleet, resolved: Resolved
) -> list[Option]:
    by_name = {view.name: view for view in views}
    permitted = fleet.inside(resolved.fence)
    options: list[Option] = []
    for name, region in fleet.regions.items():
        view = by_name.get(name) or _unseen(name)
        wait = scores.wait_s(view)
        barred = filters.border(region, permitted, resolved.pin)
        now = filters.conditions(view, region, fleet, draft.queue, draft.name, wait)
        excluded = (barred, *now) if barred else tuple(now)
        options.append(
            Option(region, view, wait, scores.score_s(view, region, fleet, wait), excluded)
        )
    return options


def _unseen(name: str) -> RegionView:
    return RegionView(name, rtt_ms=scores.UNSEEN_RTT_MS, health="UNKNOWN")


def _nowhere(
    draft: Draft, views: Sequence[RegionView], fleet: Fleet, ledger_home: str, why: str
) -> Decision:
    """Explain fences that leave nothing: each region says which ones."""
    rtts_ms = {view.name: view.rtt_ms for view in views}
    return Decision(
        region="",
        rule=matching(draft, fleet).name,
        candidates=tuple(
            Candidate(
                region=name,
                eligible=False,
                excluded_by=f"{_FENCES}{why.partition(';')[0]}",
                rtt_ms=rtts_ms.get(name, math.inf),
                expected_wait_s=math.inf,
                score_s=math.inf,
                share=0.0,
            )
            for name in fleet.regions
        ),
        fence=draft.residency,
        ledger_home=ledger_home,
        reason=why,
        policy_version=fleet.version,
    )
