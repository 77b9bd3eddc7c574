"""docs/routing.md: its example is what the product decides, its defaults are those of the code."""

import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from router import breaker, load, mix, signs, slowness
from router.route import Routes
from tests.unit.router.test_agree import Seen
from tradewind import limits
from tradewind.cli import main
from tradewind.limits import MINUTE_MS, SECOND_MS
from tradewind.policy import affinity, defaults, filters
from tradewind.policy.choose import DETOUR, FAILOVER, NO_MEMORY, TRIAL, Memory
from tradewind.policy.decide import PANIC, decide
from tradewind.policy.rules import UNSERVED, resolve
from tradewind.regions import load as load_file
from tradewind.regions import loads, schema
from tradewind.task import Draft
from tradewind.view import Decision, RegionView

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "routing.md").read_text(encoding="utf-8")
FLEET = load_file(ROOT / "regions.yaml", {})
TASK = Draft("mail.send")
Row = Mapping[str, str]


def table(header: str, nth: int = 0) -> list[Row]:
    """The rows of the nth table whose header begins so, by column."""
    found = re.findall(rf"^\| {re.escape(header)}.*\n(?:\|.*\n)+", PAGE, re.MULTILINE)[nth]
    lines = [line.strip("|").split("|") for line in found.splitlines()]
    head, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return [dict(zip(head, row, strict=True)) for row in rows]


def number(cell: str) -> float:
    """What a cell comes to: its last number."""
    return float(re.findall(r"[\d,]*\.?\d+", cell)[-1].replace(",", ""))


def shown(value: float, cell: str) -> bool:
    """Whether `value` is what the cell shows, to as many digits as it does."""
    digits = len(re.findall(r"[\d.]+", cell)[-1].partition(".")[2])
    return abs(value - number(cell)) <= 0.5001 * 10**-digits


def seen(name: str, ready: float = 0, free: float = 10, age_s: float = 0.0) -> RegionView:
    """A region of the example: ten slots, half a second a task."""
    rtt_ms = FLEET.rtt_ms.get(("us-east", name), 1.0)
    served = {"default": frozenset({"*"})}
    return RegionView(
        name,
        rtt_ms,
        depth=int(ready),
        slots=10,
        free_slots=int(free),
        service_s=0.5,
        served=served,
        age_s=age_s,
    )


def decided(
    views: Sequence[RegionView], task: Draft = TASK, memory: Memory = NO_MEMORY
) -> Decision:
    """What a router in us-east decides."""
    return decide(task, views, FLEET, draw=0.0, own_region="us-east", memory=memory)


@pytest.mark.parametrize("nth", [0, 1], ids=["idle", "a queue of two"])
def test_the_waits_scores_and_shares_are_what_is_decided(nth: int) -> None:
    rows = table("region | round trip", nth)
    views = [seen(row["region"], number(row["ready"]), number(row["free"])) for row in rows]
    told = decided(views).candidates
    assert [each.region for each in told] == [row["region"] for row in rows]
    for row, view, each in zip(rows, views, told, strict=True):
        assert shown(view.rtt_ms, row["round trip"])
        assert shown(each.expected_wait_s, row["wait"])
        assert shown(each.score_s, row["score"])
        assert shown(100 * each.share, row["share"])


def test_so_are_the_shares_as_home_fills() -> None:
    rows = table("ready at home")
    assert len(rows) > 3
    for row in rows:
        views = [
            seen("us-east", number(row["ready at home"]), 0),
            seen("eu-west"),
            seen("ap-south"),
        ]
        home, *_ = told = decided(views).candidates
        assert shown(home.expected_wait_s, row["wait there"])
        assert shown(home.score_s, row["score there"])
        assert all(shown(100 * each.share, row[each.region]) for each in told)


def test_and_as_reports_grow_old() -> None:
    for row in table("age | T"):
        old = seen("eu-west", age_s=number(row["age"]))
        for each in decided([seen("us-east", 6, 0), old, seen("ap-south")]).candidates:
            assert shown(100 * each.share, row[each.region]), row


def test_tasks_return_with_one_that_waits_and_not_with_two() -> None:
    left = Memory("us-east", bands={"us-east": defaults.RETURN_BAND})
    for ready, returns in ((1, True), (2, False)):
        views = [seen("us-east", ready, 0), seen("eu-west"), seen("ap-south")]
        assert (decided(views, memory=left).candidates[0].share == 1) is returns


def test_a_fence_holds_with_forty_tasks_before_it_and_is_refused_when_down() -> None:
    fenced = Draft("mail.send", labels={"data-class": "pii-eu"})
    full = decided([seen("us-east"), seen("eu-west", 40, 0), seen("ap-south")], fenced)
    assert (full.region, full.rule) == ("eu-west", "eu-personal-data")
    assert full.candidates[1].expected_wait_s == pytest.approx(2.05)
    assert {each.excluded_by for each in full.candidates} == {"", filters.OUTSIDE_FENCE}
    down = replace(seen("eu-west"), health="DOWN")
    assert decided([seen("us-east"), down, seen("ap-south")], fenced).region == ""


def test_the_key_has_the_order_that_its_numbers_give() -> None:
    rows = table("region | weight | u")
    ranks = {row["region"]: number(row["-weight / ln(u)"]) for row in rows}
    weights = [(name, float(each.weight)) for name, each in FLEET.regions.items()]
    assert [number(row["weight"]) for row in rows] == [weight for _, weight in weights]
    for row in rows:
        digest = blake2b(b"\0\0\0\0\0\0\0\7user-42", digest_size=8, person=b"tw-affinity/1")
        digest.update(row["region"].encode())
        assert shown(int.from_bytes(digest.digest()) / 2**64, row["u"])
        assert f"-{row['weight']} / log({row['u']})" in row["-weight / ln(u)"]
    order = affinity.rank(b"user-42", weights)
    assert sorted(ranks, key=ranks.__getitem__, reverse=True) == list(order)
    assert order[:2] == ("eu-west", "us-east")


@pytest.mark.parametrize("routers", [1, 3])
def test_each_router_sends_its_own_sixty_guests(routers: int) -> None:
    guests = 0
    for seed in range(routers):
        census: Any = Seen([seen("us-east", 6, 0), seen("eu-west"), seen("ap-south")])
        census.region = "us-east"
        routes = Routes(FLEET, census, random.Random(seed))
        for _ in range(400):
            census.at_ms += 20.0  # 8 s in all, and a look each
            guests += routes.choose(TASK, resolve(TASK, FLEET), "").region == "eu-west"
    assert guests == 60 * routers


CALCULATIONS = re.findall(r"`([^`=]+) = ([\d.]+)`", PAGE)


@pytest.mark.parametrize(("left", "right"), CALCULATIONS, ids=[left for left, _ in CALCULATIONS])
def test_each_calculation_comes_to_what_it_says(left: str, right: str) -> None:
    names: dict[str, Any] = {"exp": math.exp, "log": math.log, "max": max, "__builtins__": {}}
    assert shown(eval(left, names), right)  # noqa: S307 - our own text


def test_the_example_can_be_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ((name, text),) = re.findall(r"`([a-z]+\.yaml)`:\n```yaml\n(.*?)```\n", PAGE, re.DOTALL)
    ((command, told),) = re.findall(r"```console\n\$ tradewind (.*)\n((?:.*\n)*?)```", PAGE)
    (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "regions.yaml").write_text((ROOT / "regions.yaml").read_text(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    code = main.run(lambda: main.cli.main(command.split(), standalone_mode=False))
    said = capsys.readouterr()
    assert (code, said.err + said.out) == (0, told)


def test_every_reason_and_every_step_is_told() -> None:
    reasons = {
        text for name, text in vars(filters).items() if name.isupper() and isinstance(text, str)
    }
    filters_told = set(re.findall(r"`([^`]+)`", PAGE.partition("**Filter.**")[2].split("\n")[0]))
    elsewhere = {filters.NOT_AFFINITY, filters.GUESTS, filters.FILLING, filters.PAUSED}
    assert filters_told - {"explain", "unserved_after"} == reasons - elsewhere
    assert all(f"`{reason}`" in PAGE for reason in elsewhere)
    steps = {row["`explain` says"].strip("`") for row in table("`explain` says")}
    drawn = {"affinity", "home", "ledger", "pin", "prefer", "spill"}
    assert steps == drawn | {DETOUR, FAILOVER, TRIAL, PANIC, UNSERVED}


# --- defaults

SETTABLE: dict[str, type[BaseModel]] = {
    "regions.R.limits": schema.LimitsSection,
    "rules.affinity": schema.AffinitySection,
    "failover": schema.FailoverSection,
    "steering": schema.SteeringSection,
    "panic": schema.PanicSection,
    "health": schema.HealthSection,
}
ROWS = {row["key"].strip("`"): row["unless said"].strip("`") for row in table("key | unless said")}


def test_every_key_that_steers_routing_is_told() -> None:
    keys = {f"{at}.{key}" for at, section in SETTABLE.items() for key in section.model_fields}
    assert set(ROWS) == keys | {"regions.R.weight", "regions.R.cost"}


def test_a_file_that_says_all_defaults_is_one_that_says_none() -> None:
    plain = "version: 1\nrules: [{name: r, affinity: {%s}}]\nregions: {R: {redis: 'redis://h'%s}}\n"
    said: dict[str, list[str]] = {}
    for key, value in ROWS.items():
        at, _, name = key.rpartition(".")
        if key != "failover.order":  # a sentence
            said.setdefault(at, []).append(f"{name}: {value}")
    listed = {at: ", ".join(parts) for at, parts in said.items()}
    region = f", {listed.pop('regions.R')}, limits: {{{listed.pop('regions.R.limits')}}}"
    text = plain % (listed.pop("rules.affinity"), region)
    text += "".join(f"{at}: {{{parts}}}\n" for at, parts in listed.items())
    told, unsaid = (loads(each.replace("R:", "r:"), env={}) for each in (text, plain % ("", "")))
    assert replace(told, version="") == replace(unsaid, version="")


UNITS = {"s": SECOND_MS, "min": MINUTE_MS}


def constants(module: ModuleType) -> dict[str, float]:
    """The public numbers that a module gives names to."""
    text = Path(str(module.__file__)).read_text(encoding="utf-8")
    found = re.findall(r"^([A-Z][A-Z_0-9, ]*)(?:: Final)? = ", text, re.MULTILINE)
    named = {name: getattr(module, name) for names in found for name in names.split(", ")}
    return {name: value for name, value in named.items() if isinstance(value, int | float)}


def told_under(title: str) -> dict[str, float]:
    """The numbers of a table under a heading, by name, in the unit of the code."""
    rows = re.findall(
        r"^\| `([A-Z_0-9]+)` \| ([\d.,]+) \| ([^|]+) \|",
        PAGE.partition(f"\n### {title}\n")[2].partition("\n### ")[0],
        re.MULTILINE,
    )
    return {
        name: float(value.replace(",", "")) * (UNITS.get(unit, 1) if name.endswith("_MS") else 1)
        for name, value, unit in rows
    }


def test_the_numbers_of_deciding_are_those_of_the_code_word_for_word() -> None:
    """What fails is what the table must say."""
    lines = Path(defaults.__file__).read_text(encoding="utf-8").splitlines()
    rows: list[str] = []
    for comment, line in pairwise(lines):
        if found := re.match(r"([A-Z][A-Z_0-9]+): Final = ", line):
            unit, what, source = comment.removeprefix("#: ").split("; ")
            value = getattr(defaults, found[1])
            if unit == "ms" and value % SECOND_MS == 0:
                unit, value = "s", value / SECOND_MS
            rows.append(f"| `{found[1]}` | {value:,g} | {unit} | {what} | {source} |")
    there = PAGE.partition("\n### Where tasks go\n")[2].partition("\n#")[0]
    assert re.findall(r"^\| `.*$", there, re.MULTILINE) == rows


def test_the_numbers_of_health_and_load_are_those_of_the_code() -> None:
    assert told_under("When a region is out") == constants(breaker)
    shared = {name: getattr(limits, name) for name in ("HEARTBEAT_EVERY_MS", "WORKER_GONE_MS")}
    known = constants(signs) | constants(slowness) | constants(load) | constants(mix)
    assert told_under("What is known of a region") == shared | known


INTERVAL_S = FLEET.health.interval_ms / SECOND_MS
SENTENCES: dict[str, tuple[float, float]] = {
    "at least 30 s": (breaker.OPEN * INTERVAL_S, 30),
    "a fifth more or less": (breaker.JITTER, 0.2),
    "19 good ones of 20": (breaker.GOOD_TRIALS, 19),
    "good ones of 20 let it in": (breaker.TRIALS, 20),
    "grows from 10 % to all of it": (defaults.MIN_RAMP, 0.1),
    "to all of it in 60 s": (breaker.RAMP * INTERVAL_S, 60),
    "5 bad calls in a row": (breaker.BAD_CALLS, 5),
    "half of 50 calls": (breaker.OPEN_SHARE, 0.5),
    "of 50 calls in 10 s": (breaker.WINDOW_CALLS, 50),
    "All times but the 10 s": (breaker.WINDOW_MS, 10_000),
    "over three times": (slowness.TIMES, 3),
    "(and 50 ms over)": (slowness.LEAST_MS, 50),
    "of ten minutes for 15 s": (slowness.SLOW_SLICES * slowness.SLICE_MS, 15_000),
    "median of ten minutes": (slowness.SLICES * slowness.SLICE_MS, 10 * MINUTE_MS),
    "under 71 % of the slots": (signs.FEW_SLOTS, 0.71),
    "a tenth of 20 calls": (breaker.DOUBT_SHARE, 0.1),
    "of 20 calls in 10 s": (breaker.DOUBT_CALLS, 20),
    "2 bad probes in a row": (breaker.DOUBT_PROBES, 2),
    "goes out anew, 5 min at most": (breaker.OPEN_AT_MOST * INTERVAL_S, 300),
    "for the third time": (breaker.STRIKES, 3),
    "within 5 min of its return": (breaker.PROBATION * INTERVAL_S, 300),
    "is out for 30 min": (breaker.LONG * INTERVAL_S, 1_800),
    "an hour in order forgets it": (breaker.FORGOTTEN * INTERVAL_S, 3_600),
    "good probes for 30 s": (breaker.TRIAL_TIME * INTERVAL_S, 30),
    "five to ten minutes": (signs.MOST_MS, 5 * MINUTE_MS),
    "one that nobody has timed, 1 s": (defaults.SERVICE_S, 1),
    "nothing heard for 30 s": (defaults.UNKNOWN_AFTER_MS, 30_000),
    "half as high again": (defaults.DEGRADED_FACTOR, 1.5),
    "at most 0.25 s longer": (defaults.SLEW_PATIENCE_S, 0.25),
    "grows by at most ten points a second": (defaults.SLEW_PER_S, 0.1),
    "For 10 s after they have returned": (defaults.DWELL_S, 10),
    "more than 0.12 s longer": (defaults.SETTLED_PATIENCE_S, 0.12),
    "0.3 times what that wait is above 5 s": (defaults.TEMPERATURE_PER_WAIT, 0.3),
    "five minutes at most (60 `interval`s)": (defaults.GUESTS_AFTER_S, 60 * INTERVAL_S),
    "longer than a quarter of a second": (defaults.FILL_S, 0.25),
    "and 0.02 s more for each second since": (defaults.FILL, 0.02),
    "within *half* the band": (defaults.RETURN_BAND, 0.5),
    "more than 1.25 times its share": (defaults.BOUNDED_LOAD, 1.25),
    "in any 10 s, 30 %": (defaults.SPILL_WINDOW_S, 10),
    "more than 5 s longer": (defaults.SPILL_PATIENCE_S, 5),
    "at most 64 tasks": (defaults.LOOK_TASKS, 64),
    "50 ms apart": (defaults.TRIAL_EVERY_MS, 50),
    "less than half of the slots": (defaults.PANIC_BELOW, 0.5),
    "until 60 % have lived": (defaults.PANIC_UNTIL, 0.6),
    "have lived for 30 s": (defaults.PANIC_CALM_S, 30),
    "after 1 to 5 s by chance": (defaults.REJECT_RETRY_MIN_MS, 1_000),
    "to 5 s by chance": (defaults.REJECT_RETRY_MAX_MS, 5_000),
}


@pytest.mark.parametrize(("words", "numbers"), SENTENCES.items(), ids=SENTENCES)
def test_the_page_says(words: str, numbers: tuple[float, float]) -> None:
    assert words in " ".join(PAGE.split())
    actual, told = numbers
    assert actual == told


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)]+)\)", PAGE))))
def test_every_link_of_the_page_leads_somewhere(link: str) -> None:
    assert (ROOT / "docs" / link.partition("#")[0]).exists()
