"""The figures against what must hold. Each line is judged for every seed; one miss is a miss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from bench.sim.run import Result
from bench.sim.scenarios import LONG_AT_MOST_S, OPEN_LONG_S, Scenario
from bench.sim.tally import BUCKET_S

ORACLE_FACTOR, ORACLE_STRETCH = 1.5, 1.25
HOME_SHARE = 0.70  # at 75 % load
SUCCESS = 0.99
BACK_WITHIN_S = 300.0
OVERSHOOT = 1.25  # times a region's capacity
CHANGES_BEFORE_LONG, CHANGES_AN_HOUR_AFTER = 3, 2
# Routers notice late that it has begun; no other time out is above six minutes.
LONG_AT_LEAST_S = 0.8 * OPEN_LONG_S
NORMAL_POINTS = 0.05  # a share this near to what it was before is normal
WINDOW = 3  # buckets over which shares are taken: below it, chance moves them


@dataclass(frozen=True, slots=True)
class Line:
    """One target in one scenario: a figure a seed, and the bound."""

    scenario: str
    target: str
    bound: str
    figures: tuple[float, ...]
    holds: tuple[bool, ...]
    unit: str = ""

    @property
    def verdict(self) -> str:
        """`holds`, `MISSED`, or in how many seeds it was missed."""
        missed = self.holds.count(False)
        if not missed:
            return "holds"
        return "MISSED" if missed == len(self.holds) else f"MISSED in {missed} of {len(self.holds)}"

    @property
    def middle(self) -> float:
        """Median over the seeds."""
        return median(self.figures)

    @property
    def worst(self) -> float:
        """The figure furthest on the wrong side."""
        return min(self.figures) if self.bound.startswith(">=") else max(self.figures)


def judge(scenario: Scenario, results: Sequence[Result]) -> list[Line]:
    """Hold the product's figures in one scenario against the targets that are about it."""
    by_policy = _by_policy(results)
    product = by_policy["product"]
    lines = [
        _at_most(scenario, "tasks outside their fence", 0, [r.outside_fence for r in product]),
    ]
    lines += _against_rivals(scenario, by_policy)
    if scenario.script is None:
        if scenario.load <= 0.75:
            lines.append(
                _at_least(scenario, "tasks at home", HOME_SHARE, [r.home for r in product])
            )
        return lines
    lines.append(
        _at_least(
            scenario,
            "submits succeed, a permitted region up",
            SUCCESS,
            [r.success for r in product],
        )
    )
    lines.append(_is_back(scenario, product))
    lines.append(
        _at_most(
            scenario,
            "peak of a region after recovery, of its capacity",
            OVERSHOOT,
            [overshoot(scenario, r) for r in product],
        )
    )
    lines.append(
        _at_most(
            scenario,
            "the same by work, of its slots' time",
            OVERSHOOT,
            [overshoot_by_work(scenario, r) for r in product],
        )
    )
    if scenario.name == "mistaken-drain":
        hits = [r.drained_hits for r in product]
        lines.append(_at_most(scenario, "tasks sent to a drained region", 0, hits))
    if scenario.name == "flapping":
        lines += _flaps(scenario, product)
    return lines


def _is_back(scenario: Scenario, product: Sequence[Result]) -> Line:
    if scenario.name != "shut-out":
        back_s = [back_after_s(scenario, each) for each in product]
        return _at_most(
            scenario, "back to normal shares after recovery", BACK_WITHIN_S, back_s, " s"
        )
    outs_s = [shut_out_s(scenario, each) for each in product]
    back_s = [back_after_s(scenario, r, out_s) for r, out_s in zip(product, outs_s, strict=True)]
    bound_s = LONG_AT_MOST_S + BACK_WITHIN_S
    target = "back to normal shares after the last router shut it out"
    return _at_most(scenario, target, bound_s, back_s, " s")


def _against_rivals(scenario: Scenario, by_policy: Mapping[str, list[Result]]) -> list[Line]:
    lines: list[Line] = []
    for rival, factor, name in (
        ("p2c-quota", 1.0, "p99 against P2C within our share abroad"),
        ("p2c-priced", 1.0, "p99 against P2C of home and one, priced"),
        ("oracle-quota", ORACLE_FACTOR, "p99 against the oracle within our share"),
        ("oracle-quota", ORACLE_STRETCH, "the same, stretch"),
    ):
        if rival not in by_policy or scenario.script is not None:
            continue
        pairs = zip(by_policy["product"], by_policy[rival], strict=True)
        ratios = [ours.p99_s / max(1e-9, theirs.p99_s) for ours, theirs in pairs]
        lines.append(_at_most(scenario, name, factor, ratios, "x"))
    return lines


def _flaps(scenario: Scenario, product: Sequence[Result]) -> list[Line]:
    assert scenario.script is not None  # noqa: S101 - the caller has looked
    region = scenario.script.changes[0].region
    counts = [
        [flaps(times) for times in result.changes.get(region, {}).values()] for result in product
    ]
    before = [max((each[0] for each in routers), default=0) for routers in counts]
    after = [max((each[1] for each in routers), default=0) for routers in counts]
    return [
        _at_most(scenario, "changes before the long open time", CHANGES_BEFORE_LONG, before),
        _at_most(scenario, "changes in an hour after it", CHANGES_AN_HOUR_AFTER, after),
    ]


def flaps(times: Sequence[float]) -> tuple[int, int]:
    """Count a router's changes up to its first long open time, and the most in an hour after it.

    `times` alternate: out, in, out ... Without a long open time all come before it.
    """
    index = _long_out(times)
    if index is None:
        return len(times), 0
    later = times[index + 2 :]
    most = max((sum(at <= t < at + 3600 for t in later) for at in later), default=0)
    return index + 1, most


def _long_out(times: Sequence[float]) -> int | None:
    """Return which of a router's changes began its first long open time."""
    for index, (out_s, in_s) in enumerate(pairwise(times)):
        if index % 2 == 0 and in_s - out_s >= LONG_AT_LEAST_S:
            return index
    return None


def shut_out_s(scenario: Scenario, result: Result) -> float:
    """Return when the last router began its first long open time; the recovery if none did."""
    script = scenario.script
    assert script is not None  # noqa: S101 - only scripts recover
    routers = result.changes.get(script.changes[0].region, {}).values()
    began_s = [times[at] for times in routers if (at := _long_out(times)) is not None]
    return max(began_s, default=script.ends_s)


def shares(result: Result, first: int, last: int) -> dict[str, float]:
    """Return each region's share of what arrived in buckets `first` to `last` - 1."""
    counts = {region: sum(each[first:last]) for region, each in result.arrived.items()}
    total = max(1, sum(counts.values()))
    return {region: count / total for region, count in counts.items()}


def back_after_s(scenario: Scenario, result: Result, from_s: float | None = None) -> float:
    """Return seconds until shares are, and stay for a window, as before the outage.

    From the recovery on, unless `from_s` says another time.
    """
    script = scenario.script
    assert script is not None  # noqa: S101 - only scripts recover
    begins = int(script.begins_s / BUCKET_S)
    ends = int((script.ends_s if from_s is None else from_s) / BUCKET_S)
    normal = shares(result, begins - int(120 / BUCKET_S), begins)
    count = len(next(iter(result.arrived.values())))
    good = 0
    for bucket in range(ends, count - WINDOW):
        now = shares(result, bucket, bucket + WINDOW)
        is_normal = all(abs(now[name] - normal[name]) <= NORMAL_POINTS for name in normal)
        good = good + 1 if is_normal else 0
        if good == WINDOW:
            return (bucket - WINDOW + 1 - ends) * BUCKET_S
    return float("inf")


def overshoot(scenario: Scenario, result: Result) -> float:
    """Return the highest rate of arrivals at a region after recovery, over its capacity."""
    assert scenario.script is not None  # noqa: S101 - only scripts recover
    ends = int(scenario.script.ends_s / BUCKET_S)
    most = max(max(each[ends:], default=0) for each in result.arrived.values())
    return most / BUCKET_S / scenario.settings.capacity


def overshoot_by_work(scenario: Scenario, result: Result) -> float:
    """Return the same of seconds that the tasks take a slot, over those that the slots have."""
    assert scenario.script is not None  # noqa: S101 - only scripts recover
    ends = int(scenario.script.ends_s / BUCKET_S)
    most = max(max(each[ends:], default=0) for each in result.work_s.values())
    return most / BUCKET_S / scenario.settings.slots


def _by_policy(results: Sequence[Result]) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda each: each.seed):
        found.setdefault(result.policy, []).append(result)
    return found


def _at_most(
    scenario: Scenario, target: str, bound: float, figures: Sequence[float], unit: str = ""
) -> Line:
    holds = tuple(figure <= bound for figure in figures)
    return Line(scenario.name, target, f"<= {bound:g}{unit}", tuple(figures), holds, unit)


def _at_least(scenario: Scenario, target: str, bound: float, figures: Sequence[float]) -> Line:
    holds = tuple(figure >= bound for figure in figures)
    return Line(scenario.name, target, f">= {bound:g}", tuple(figures), holds)
