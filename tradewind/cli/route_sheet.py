"""The table of `tradewind explain`: every region's score and share, and what speaks against it."""

from typing import TYPE_CHECKING

from tradewind.cli import show
from tradewind.cli.sheet import Column, Sheet
from tradewind.cli.text import with_detail
from tradewind.policy import filters

if TYPE_CHECKING:
    from tradewind.client import Route
    from tradewind.view import Candidate

_BAR = 10  # characters of a share of 100 %
_ALL = 0.995  # of calls: what rounds to 100 %
_TRIFLE_S = 0.0005  # what makes no difference to a table


def route_sheet(route: "Route") -> Sheet:
    """Give every region, the chosen one first, the excluded ones last."""
    made = Sheet(
        Column(""),
        Column("region"),
        Column("rtt", right=True),
        Column("wait", right=True),
        Column("start in", right=True),
        Column("share", right=True),
        Column("", decor=True),
        Column("age", right=True, decor=True),  # rather than that a reason is folded
        Column("why not", folds=True),
    )

    def rank(candidate: "Candidate") -> tuple[bool, bool, float]:
        chosen = candidate.region == route.region
        return (not chosen, not candidate.eligible, candidate.score_s)

    for each in sorted(route.candidates, key=rank):
        chosen = each.region == route.region
        style = "bold green" if chosen else "" if each.eligible else "dim"
        starts = each.eligible and each.excluded_by not in filters.NOBODY_RUNS_IT
        cells = (
            "▸" if chosen else "",
            each.region,
            show.milliseconds(each.rtt_ms or None),  # 0: nothing was measured
            show.seconds(each.expected_wait_s) if starts else "-",
            show.seconds(each.score_s) if starts else "-",
            f"{each.share:.0%}" if each.eligible else "-",
            "█" * round(each.share * _BAR),
            show.seconds(each.age_s),
            filters.OUTSIDE_FENCE
            if is_fence(each.excluded_by)
            else with_detail(each.excluded_by, each.details),
        )
        notes = (score_text(each) if starts else "", _others(each))
        below = [show.text(note, "dim") for note in notes if note]
        made.add(*(show.text(cell, style) for cell in cells), below=below)
    return made


def _others(candidate: "Candidate") -> str:
    """Give what else speaks against a region."""
    others = [with_detail(reason, candidate.details) for reason in candidate.reasons[1:]]
    return f"also {', '.join(others)}" if others else ""


def score_text(candidate: "Candidate") -> str:
    """Reckon the score; nothing where it is the round trip and the wait, as the row shows them."""
    parts = candidate.parts
    if parts is None:
        return ""
    is_usual = _is(parts.rtt_s, candidate.rtt_ms / 1_000)
    is_usual = is_usual and _is(parts.wait_s, candidate.expected_wait_s)
    labels = ("", "") if is_usual else (" for the way", " for the wait")  # steering weighs them
    terms = zip((parts.rtt_s, parts.wait_s, parts.cost_s), (*labels, " for its cost"), strict=True)
    seconds = [f"{show.seconds(each)}{label}" for each, label in terms if each >= _TRIFLE_S]
    said = {
        f"/ {parts.success_rate:.0%} (calls that succeed)": parts.success_rate < _ALL,
        f"/ {parts.ramp:.0%} (recovering)": parts.ramp < 1,
        f"* {parts.health_factor:g} ({_blemish(candidate)})": parts.health_factor != 1,
    }
    factors = [text for text, counts in said.items() if counts]
    if is_usual and not factors and not parts.cost_s:
        return ""
    sum_ = " + ".join(seconds) or show.seconds(0)
    return " ".join(["=", f"({sum_})" if factors and len(seconds) > 1 else sum_, *factors])


def _blemish(candidate: "Candidate") -> str:
    return "degraded" if candidate.health == "DEGRADED" else "old report"


def _is(value_s: float, shown_s: float) -> bool:
    return abs(value_s - shown_s) < _TRIFLE_S


def is_fence(reason: str) -> bool:
    """Whether it says that a region is outside the fence."""
    return reason.partition(": ")[0] == filters.OUTSIDE_FENCE
