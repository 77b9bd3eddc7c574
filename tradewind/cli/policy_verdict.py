"""What a case wanted beside what it got, in the words that routers use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tradewind.client.views import Candidate, Route, route_of
from tradewind.fleet import Fleet
from tradewind.regions.cases import Case, Expected
from tradewind.regions.trial import Outcome, tried
from tradewind.statuses import code_of
from tradewind.wire import decision


@dataclass(frozen=True, slots=True)
class Difference:
    """One expectation that does not hold."""

    of: str  # key of `expect`
    wanted: str
    got: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one case; it passes without a difference."""

    case: Case
    shares: Mapping[str, float]
    route: Route
    refused: str  # code of gRPC, empty if it was not
    message: str  # what a caller would be told
    differences: tuple[Difference, ...]


def judged(case: Case, fleet: Fleet) -> Verdict:
    """Try a case and hold it against what it expects."""
    outcome = tried(case, fleet)
    code = "" if outcome.refusal is None else code_of(outcome.refusal).name
    message = "" if outcome.refusal is None else str(outcome.refusal)
    route = route_of(decision(outcome.decision, partition=0))
    differences = tuple(_differences(case.expected, outcome, route, code))
    return Verdict(case, outcome.shares, route, code, message, differences)


def shares_text(shares: Mapping[str, float]) -> str:
    """`eu-west`, or `eu-west 77%, us-east 23%`."""
    if len(shares) == 1:
        return next(iter(shares))
    return ", ".join(f"{name} {_percent(share)}" for name, share in shares.items())


def _percent(share: float) -> str:
    return f"{share * 100:.3g}%"


def _differences(
    expected: Expected, outcome: Outcome, route: Route, code: str
) -> Iterator[Difference]:
    shares = outcome.shares
    got = f"refused: {code}" if code else f"{shares_text(shares)} ({route.rule})"
    if expected.refused and expected.refused != code:
        yield Difference("refused", expected.refused, code or got)
    if expected.any_of and not (shares and set(shares).issubset(expected.any_of)):
        key = "region" if len(expected.any_of) == 1 else "any_of"
        yield Difference(key, " or ".join(expected.any_of), got)
    if expected.rule and expected.rule != route.rule:
        yield Difference("rule", expected.rule, route.rule)
    reasons = {each.region: _reason(each) for each in route.candidates}
    for name, wanted in expected.excluded.items():
        if reasons[name] != wanted:
            yield Difference(f"excluded {name}", wanted, reasons[name])
    for name, bound in expected.share.items():
        share = shares.get(name, 0.0)
        if not bound.holds(share):
            yield Difference(f"share {name}", bound.text, _percent(share))


def _reason(candidate: Candidate) -> str:
    if candidate.eligible:
        overlooked = f", in spite of: {candidate.excluded_by}" if candidate.excluded_by else ""
        return f"not excluded{overlooked}"
    return candidate.excluded_by
