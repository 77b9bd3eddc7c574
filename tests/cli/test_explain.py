"""What `tradewind explain` says, from the decision of the policy to the terminal."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from router.decisions import explained
from tests.cli.conftest import Run
from tests.cli.test_real_router import tradewind
from tests.cli.test_sheets import rendered
from tests.rpc.running import running
from tests.unit.policy.worlds import busy, fleet, region, unserved, view
from tradewind.cli import show
from tradewind.cli.explain import (
    fence_text,
    headline,
    held_line,
    refusal_text,
    regime_text,
    repeats_text,
)
from tradewind.cli.route_sheet import route_sheet, score_text
from tradewind.client import Route
from tradewind.client.views import route_of
from tradewind.fleet import Fleet, Match, Rule, Steering
from tradewind.policy.decide import decide
from tradewind.task import Draft
from tradewind.view import Candidate, FenceAuthors, RegionView, ScoreParts

ROOT = Path(__file__).resolve().parents[2]
PERSONAL = Rule("eu-personal-data", Match(labels={"data": "pii"}), residency=("eu",))
WORLD = fleet(
    region("eu-west", "eu"),
    region("eu-north", "eu"),
    region("us-east", "us"),
    region("ap-south", "apac", weight=0),
    rules=(PERSONAL,),
)
VIEWS = [
    busy("eu-west", 0.4, 1.0, age_s=0.42),
    view("eu-north", 24.3, ok=0.92, health="DEGRADED", age_s=11.2),
    view("us-east", 82.0, health="DOWN", full=True, age_s=3.1, state="DRAINING"),
    RegionView("ap-south", 210.0, health="UNKNOWN"),
]


def route(
    draft: Draft, views: list[RegionView] = VIEWS, world: Fleet = WORLD, draw: float = 0.3
) -> Route:
    found = decide(draft, views, world, draw=draw, own_region="eu-west")
    return route_of(explained(draft, found, world, partition=17))


SPILLING = route(Draft("email.send"))


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_fits_a_terminal_and_tells_everything(width: int) -> None:
    lines = rendered(route_sheet(SPILLING), width)
    assert max(map(len, lines)) <= width
    assert lines[0].split() == [
        *("region", "rtt", "wait", "start", "in", "share", "age", "why", "not"),
    ]
    assert [line.strip() for line in lines[2:]] == [
        "▸  eu-west   1.0 ms  400 ms    401 ms    47%  █████  420 ms",
        "eu-north   24 ms  0.0 ms     40 ms    53%  █████  11.2 s",
        "= 24 ms / 92% (calls that succeed) * 1.5 (degraded)",
        "us-east    82 ms       -         -      -          3.1 s  draining",
        "also down, full",
        "ap-south  210 ms       -         -      -              -  weight 0",
        "also unknown",
    ]


def test_the_guide_shows_what_is_printed() -> None:
    page = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    world = fleet(region("us-east", "us"), region("eu-west", "eu"))
    views = [view("us-east"), view("eu-west", health="DOWN")]
    down = refusal_text(route(Draft("x", residency=("eu",)), views, world))
    pinned = Draft("x", residency=("us",), pin_region="eu-west")
    never = refusal_text(route(pinned, views, world))
    for shown in (headline("email.send", SPILLING), regime_text(SPILLING), down, never):
        assert f"\n{shown}\n" in page
    assert "\n".join(rendered(route_sheet(SPILLING), 80)) in page


ALL_FACTORS = "/ 90% (calls that succeed) / 50% (recovering) * 1.5 (old report)"
PARTS = ScoreParts(0.08, 0.4, 0.0, 1.0, 1.0, 1.0)
SCORES: dict[str, tuple[ScoreParts | None, str]] = {
    "of a router that does not say": (None, ""),
    "as the row has it": (PARTS, ""),
    "fewer calls succeed": (
        replace(PARTS, success_rate=0.5),
        "= (80 ms + 400 ms) / 50% (calls that succeed)",
    ),
    "recovering": (replace(PARTS, ramp=0.1), "= (80 ms + 400 ms) / 10% (recovering)"),
    "an old report": (
        replace(PARTS, health_factor=1.5),
        "= (80 ms + 400 ms) * 1.5 (old report)",
    ),
    "a cost": (replace(PARTS, cost_s=2.0), "= 80 ms + 400 ms + 2.0 s for its cost"),
    "weights of steering": (
        replace(PARTS, rtt_s=0.16),
        "= 160 ms for the way + 400 ms for the wait",
    ),
    "all at once": (
        ScoreParts(0.16, 0.4, 2.0, 0.9, 0.5, 1.5),
        f"= (160 ms for the way + 400 ms for the wait + 2.0 s for its cost) {ALL_FACTORS}",
    ),
}


@pytest.mark.parametrize(("parts", "said"), SCORES.values(), ids=SCORES)
def test_the_score_is_reckoned_where_it_is_more_than_the_row_shows(
    parts: ScoreParts | None, said: str
) -> None:
    assert score_text(Candidate("eu", True, "", 80.0, 0.4, 1.0, 1.0, parts=parts)) == said


def test_a_score_of_nothing_is_no_empty_sum() -> None:
    parts = ScoreParts(0.0, 0.0, 0.0, 0.5, 1.0, 1.0)
    candidate = Candidate("eu", True, "", 0.0, 0.0, 0.0, 1.0, parts=parts)
    assert score_text(candidate) == "= 0.0 ms / 50% (calls that succeed)"


IDLE = [view("eu-west", 1.0), *VIEWS[1:]]
OVER = [busy("eu-west", 31.0, 1.0), view("eu-north", 24.3), view("us-east", 82.0)]
BACK = [view("eu-west", 1.0, health="RECOVERING", ramp=0.25), *OVER[1:]]
PII = Draft("email.send", labels={"data": "pii"})
DETOUR = "the nearest that can take it"
BY_RULE = "by rule eu-personal-data"
SAID: dict[str, tuple[Route, str, str, str]] = {
    "tasks stay at home": (
        route(Draft("email.send"), IDLE),
        "goes to eu-west: home (the nearest)",
        "Home is eu-west; tasks stay there.",
        "",
    ),
    "tasks leave home, and this one stays": (
        SPILLING,
        "goes to eu-west: home (the nearest, drawn by its share)",
        "Home is eu-west; tasks leave it now, each for a region drawn by its share.",
        "",
    ),
    "tasks leave home, and this one too": (
        route(Draft("email.send"), draw=0.99),
        "goes to eu-north: spill (it would start sooner than in the nearest)",
        "Home is eu-west; tasks leave it now, each for a region drawn by its share.",
        "",
    ),
    "the nearest recovers, and this one stays": (
        route(Draft("email.send"), BACK, draw=0.1),
        "goes to eu-west: home (the nearest, drawn by its share)",
        "Home is eu-west, and recovers: by now it takes 25% of such tasks, and soon all.",
        "",
    ),
    "the nearest recovers, and this one goes": (
        route(Draft("email.send"), BACK, draw=0.99),
        "goes to us-east: spill (the nearest recovers, and takes only a part of its tasks)",
        "Home is eu-west, and recovers: by now it takes 25% of such tasks, and soon all.",
        "",
    ),
    "the nearest is full": (
        route(Draft("email.send"), OVER),
        f"goes to eu-north: detour ({DETOUR}; eu-west is nearer: wait over limit)",
        "Home is eu-north while eu-west takes none; tasks go there.",
        "",
    ),
    "a rule, and the step behind it": (
        route(PII, IDLE),
        "goes to eu-west: eu-personal-data, then home (the nearest)",
        "Home is eu-west; tasks stay there.",
        f"The fence [eu]: {BY_RULE}.",
    ),
    "a pin": (
        route(Draft("x", pin_region="eu-north")),
        "pin (the region it asks for)",
        "",
        "Pinned to eu-north.",
    ),
    "nobody runs it": (
        route(Draft("x", pin_region="eu-west"), [unserved("eu-west")]),
        "unserved (no live worker runs it)",
        "",
        "Pinned to eu-west.",
    ),
    "nobody runs it, behind a rule": (
        route(PII, [unserved("eu-west"), unserved("eu-north", 24.0)]),
        "goes to eu-west: eu-personal-data, then unserved (no live worker runs it)",
        "Home is eu-west; tasks stay there.",
        f"The fence [eu]: {BY_RULE}.",
    ),
    "nowhere": (
        route(Draft("x", residency=("us",))),
        "goes nowhere: no region can take it now",
        "",
        "The fence [us]: by the task's own residency.",
    ),
    "nowhere, by a rule": (
        route(PII._replace(pin_region="us-east")),
        "goes nowhere: no region may ever take it (eu-personal-data)",
        "",
        f"The fence [eu]: {BY_RULE}. Pinned to us-east.",
    ),
    "nowhere, by a rule and the task": (
        route(PII._replace(residency=("us",))),
        "goes nowhere: no region may ever take it (eu-personal-data)",
        "",
        f"The fence: {BY_RULE} [eu] and the task's own residency [us].",
    ),
}


@pytest.mark.parametrize(("shown", "head", "regime", "fence"), SAID.values(), ids=SAID)
def test_the_answer_is_a_sentence(shown: Route, head: str, regime: str, fence: str) -> None:
    assert str(headline("x", shown)).endswith(head)
    assert regime_text(shown) == regime
    assert fence_text(shown) == fence


EU = Draft("x", residency=("eu",))
PASSES, STAYS = "This may pass: ", "Waiting does not help: this is a contradiction"
REFUSALS: dict[str, tuple[Route, str, str]] = {
    "its region is down": (
        route(EU._replace(residency=("us",))),
        PASSES + "regions that may take it are out (UNAVAILABLE). No permitted region can take "
        "the task now (us-east: ",
        "; retry later.",
    ),
    "its regions are full": (
        route(EU, [replace(each, full=True) for each in IDLE[:2]]),
        PASSES + "regions that may take it are full (RESOURCE_EXHAUSTED). Every permitted ",
        "; retry later.",
    ),
    "fence and pin exclude each other": (
        route(EU._replace(pin_region="us-east")),
        f"{STAYS} (FAILED_PRECONDITION). Residency, pin and weights leave no region (",
        "; change the task, or the rules of policy v1.",
    ),
    "rule and task exclude each other": (
        route(PII._replace(residency=("us",))),
        f"{STAYS} (FAILED_PRECONDITION). [eu] by rule eu-personal-data and [us] by the task ",
        "; give the task a group that the rule permits.",
    ),
    "none": (SPILLING, "", ""),
}


@pytest.mark.parametrize(("shown", "begins", "ends"), REFUSALS.values(), ids=REFUSALS)
def test_a_contradiction_is_told_from_an_outage_and_what_to_do(
    shown: Route, begins: str, ends: str
) -> None:
    said = refusal_text(shown)
    assert said.startswith(begins)
    assert said.endswith(ends)
    assert bool(said) is bool(begins)


def test_a_paused_queue_is_told_with_what_ends_that() -> None:
    held = replace(SPILLING, waits_for="paused")
    assert held_line("email.send", "mail", held) == (
        "It would wait there: queue mail is paused, in every region; "
        "`tradewind resume mail` lets it start."
    )
    assert held_line("email.send", "mail", SPILLING) == ""


def test_what_is_reckoned_is_told_to_the_microsecond() -> None:
    views = [view("eu-west", 1.0 / 3, ok=6.0 / 7), *VIEWS[1:]]
    for each in route(Draft("x"), views).candidates:
        numbers = [value for value in asdict(each).values() if isinstance(value, float)]
        numbers += [] if each.parts is None else asdict(each.parts).values()
        assert all(len(f"{number!r}".partition(".")[2]) <= 6 for number in numbers), numbers


KEYED = route(Draft("x", idempotency_key="k", request_id="r"))
REPEATS: dict[str, tuple[Route, bool, str]] = {
    "of a key": (KEYED, False, "Repeats of its idempotency key are recognised in eu-west."),
    "of the caller's own request_id": (
        route(Draft("x", request_id="r")),
        True,
        "Repeats of its request_id are recognised in eu-west.",
    ),
    "of nothing": (route(Draft("x", request_id="minted")), False, ""),
}


@pytest.mark.parametrize(("shown", "is_named", "said"), REPEATS.values(), ids=REPEATS)
def test_repeats_are_recognised_only_by_what_the_caller_gave(
    shown: Route, *, is_named: bool, said: str
) -> None:
    found = replace(shown, ledger_home="eu-west")
    assert repeats_text(found, is_named=is_named) == said


def test_of_a_single_region_no_other_reason_is_named_than_that_it_is_near() -> None:
    found = decide(EU, IDLE[:1], WORLD, draw=0.0, ledger_home="eu-west")
    assert (found.region, found.reason) == ("eu-west", "home")


def test_what_is_piped_is_as_wide_as_columns_says_and_whole_without(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = PII._replace(labels={"data": "pii"}, queue="q" * 40)
    refused = route(draft._replace(residency=("us",)))

    def piped() -> list[str]:
        out = show.console()
        out.print(route_sheet(SPILLING))
        out.print(show.text(refusal_text(refused)))
        return capsys.readouterr().out.splitlines()

    whole = piped()
    assert refusal_text(refused) in whole
    assert max(map(len, whole)) > 80
    monkeypatch.setenv("COLUMNS", "64")
    narrow = piped()
    assert max(map(len, narrow)) <= 64
    assert " ".join(" ".join(narrow).split()).endswith(refusal_text(refused))
    monkeypatch.setenv("COLUMNS", "no number")
    assert piped() == whole


async def test_the_object_has_what_the_table_has_and_more(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    steered = replace(fleet, steering=Steering(cost_weight_s=0.5, rtt_weight=2.0))
    async with running(steered) as serving:
        await serving.staff()
        task = ("explain", "email.send", "--origin", "eu-west", "--residency", "eu")
        assert await tradewind(run, serving, *task) == 0
        text = capsys.readouterr().out
        assert await tradewind(run, serving, *task, "--json") == 0
        shown = json.loads(capsys.readouterr().out)

    assert "goes to eu-west: home (the nearest)" in text
    assert "Home is eu-west; tasks stay there." in text
    assert (shown["step"], shown["home"], shown["spills"]) == ("home", "eu-west", False)
    assert shown["fence"] == ["eu"]
    assert shown["fence_by"] == asdict(FenceAuthors(task_residency=("eu",))) | {
        "rule_residency": [],
        "task_residency": ["eu"],
    }
    assert (shown["refused"], shown["refusal"], shown["bypassed"]) == ("", "", "")
    assert "recognised" not in text  # by a request_id that was minted for this question
    empty = asdict(Candidate("", False, "", 0.0, 0.0, 0.0, 0.0))
    for each in shown["candidates"]:
        assert each.keys() == empty.keys()
        parts = each["parts"]
        seconds = parts["rtt_s"] + parts["wait_s"] + parts["cost_s"]
        factor = parts["health_factor"] / parts["success_rate"] / parts["ramp"]
        assert seconds * factor == pytest.approx(each["score_s"], abs=1e-5)
        assert parts["rtt_s"] == pytest.approx(
            2 * each["rtt_ms"] / 1_000, abs=1e-5
        )  # told in whole us
        assert each["reasons"] == ([] if each["eligible"] else ["outside the fence"])
        assert each["age_s"] is not None
