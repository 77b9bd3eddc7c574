"""What the policy decides for a case: the product's own steps, with every chance in view."""

from collections.abc import Mapping
from dataclasses import dataclass

from tradewind.errors import TradewindError
from tradewind.fleet import Fleet
from tradewind.policy.decide import decide, refusal
from tradewind.regions.cases import Case
from tradewind.view import Decision

# Of tasks: a region that gets fewer gets none, as far as a case is concerned. Where tasks spill
# over, even a hopeless region has a share in the billionths.
_NOTICEABLE = 0.001
_DRAWS = tuple((number + 0.5) / 100 for number in range(100))


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where tasks like that go, and what keeps them from elsewhere."""

    shares: Mapping[str, float]  # of tasks, by region, the largest first; empty if refused
    decision: Decision  # of most of them
    refusal: TradewindError | None


def tried(case: Case, fleet: Fleet) -> Outcome:
    """Route the task of `case` as a router in its origin would that remembers nothing."""

    def drawn(draw: float) -> Decision:
        return decide(case.draft, case.views, fleet, draw=draw, own_region=case.origin)

    decision = drawn(_DRAWS[0])
    if not decision.region:
        return Outcome({}, decision, refusal(decision, fleet))
    shares = {each.region: each.share for each in decision.candidates if each.share >= _NOTICEABLE}
    ranked = sorted(shares, key=shares.__getitem__, reverse=True)
    # The one with the largest share of up to 30 regions is met by some of a hundred even draws.
    decision = next((each for each in map(drawn, _DRAWS) if each.region == ranked[0]), decision)
    return Outcome({name: shares[name] for name in ranked}, decision, None)
