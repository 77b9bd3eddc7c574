"""What a router tells of its decisions: how often, how much, and of which tasks nothing."""

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, Tracer, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import use_span

from router import decisions
from router.decisions import MOST_A_SECOND, Decisions, explained
from tests.unit.policy.worlds import busy, fleet, region, view
from tradewind.client.views import route_of
from tradewind.policy.decide import Weighed, weigh
from tradewind.policy.rules import resolve
from tradewind.task import Draft
from tradewind.view import Decision

MARKER = "tenantlabelkeypayload"
PLAIN: dict[str, Any] = {"name": "thumbs.make"}
SECRETS: dict[str, Any] = PLAIN | {
    "tenant": MARKER,
    "labels": {MARKER: MARKER},
    "payload": MARKER.encode(),
    "affinity_key": MARKER,
    "idempotency_key": MARKER,
    "request_id": MARKER,
}
WORLD = fleet(region("eu", "eu", "both"), region("us", "us", "both"))
VIEWS = [busy("eu", 0.4), view("us", 90.0)]


class Told:
    """Decisions of a router in eu at a time, and with a chance, that the test sets."""

    def __init__(self) -> None:
        self.now_ms, self.chance, self.reckoned = 0.0, 0.5, 0
        self.decisions = Decisions(WORLD, "eu", lambda: self.now_ms, lambda: self.chance)

    def made(self, task: dict[str, Any] = PLAIN, *, draw: float = 0.0) -> Weighed:
        draft = Draft(**task)
        weighed = weigh(draft, VIEWS, WORLD, resolved=resolve(draft, WORLD))
        self.decisions.made(draft, weighed, draw, weighed.bare(draw))
        return weighed


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    made, reckon = Told(), Weighed.decision

    def counted(weighed: Weighed, draw: float) -> Decision:
        made.reckoned += 1
        return reckon(weighed, draw)

    monkeypatch.setattr(Weighed, "decision", counted)
    return made


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(vars(record))


LOGGER = logging.getLogger("tradewind.decision")


@pytest.fixture
def logged() -> Iterator[list[dict[str, Any]]]:
    kept, level = Kept(), LOGGER.level
    LOGGER.addHandler(kept)
    LOGGER.setLevel(logging.INFO)
    yield kept.found
    LOGGER.removeHandler(kept)
    LOGGER.setLevel(level)


def test_the_first_of_each_kind_in_a_minute_is_logged(
    told: Told, logged: list[dict[str, Any]]
) -> None:
    for now_ms, lines in ((0.0, 1), (1.0, 1), (59_999.0, 1), (60_000.0, 2), (60_001.0, 2)):
        told.now_ms = now_ms
        told.made()
        assert len(logged) == lines
    told.made(draw=0.999)  # another region
    told.made(PLAIN | {"pin_region": "eu"})  # another reason
    assert len(logged) == 4
    regions = [each["decision"]["region"] for each in logged]
    assert regions == ["eu", "eu", "us", "eu"]


def test_of_the_others_one_in_a_hundred_is_logged_and_no_more_than_a_few_a_second(
    told: Told, logged: list[dict[str, Any]]
) -> None:
    told.made()
    told.chance = 0.01
    told.made()
    assert len(logged) == 1
    told.chance = 0.009
    for _ in range(3 * MOST_A_SECOND):
        told.made()
    assert len(logged) == MOST_A_SECOND
    told.now_ms = 1_000.0
    told.made()
    assert len(logged) == MOST_A_SECOND + 1


def test_what_is_not_told_is_not_reckoned(told: Told, logged: list[dict[str, Any]]) -> None:
    told.made()
    told.made()
    LOGGER.setLevel(logging.WARNING)
    told.chance = 0.0
    told.made()
    assert (told.reckoned, len(logged)) == (1, 1)


def test_the_log_has_the_object_of_explain_and_says_nothing_else_of_the_task(
    told: Told, logged: list[dict[str, Any]]
) -> None:
    task: dict[str, Any] = SECRETS | {"origin_region": "us"}
    weighed, draft = told.made(task), Draft(**task)
    found = logged[0]
    shown = asdict(route_of(explained(draft, weighed.decision(0.0), WORLD, partition=0)))
    del shown["partition"], shown["waits_for"]
    assert json.loads(json.dumps(found["decision"])) == json.loads(json.dumps(shown))
    assert found["decision"]["candidates"][1]["parts"]["rtt_s"] == pytest.approx(0.09)
    assert (found["queue"], found["handler"], found["origin"]) == ("default", "thumbs.make", "us")
    assert MARKER not in repr(found)


def test_a_line_for_people_has_the_gist(told: Told, logged: list[dict[str, Any]]) -> None:
    told.made(PLAIN | {"residency": ("eu",)})
    gist = str(logged[0]["decision"])
    assert gist == "eu by home (eu: 0.401 s; us: outside the fence)"


OUTSIDE: dict[str, Any] = SECRETS | {"residency": ("us",)}


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exported: InMemorySpanExporter) -> Tracer:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    tracer = provider.get_tracer("test")
    assert isinstance(tracer, Tracer)
    return tracer


def events(exported: InMemorySpanExporter) -> list[list[dict[str, Any]]]:
    spans: tuple[ReadableSpan, ...] = exported.get_finished_spans()
    assert all(event.name == "tradewind.decision" for span in spans for event in span.events)
    return [[dict(event.attributes or {}) for event in span.events] for span in spans]


def test_of_a_task_whose_fence_leaves_the_router_out_nothing_is_told(
    told: Told, logged: list[dict[str, Any]], tracer: Tracer, exported: InMemorySpanExporter
) -> None:
    told.chance = 0.0
    with tracer.start_as_current_span("SubmitTask"):
        for _ in range(3):
            told.made(OUTSIDE)
        told.made(OUTSIDE | {"pin_region": "us"})
        told.made(OUTSIDE | {"pin_region": "eu"})  # nowhere
    assert not logged
    assert not told.reckoned
    assert events(exported) == [[]]
    told.made(SECRETS | {"residency": ("both",)})
    assert len(logged) == 1


def test_a_recording_span_gets_each_kind_of_decision_once(
    told: Told, logged: list[dict[str, Any]], tracer: Tracer, exported: InMemorySpanExporter
) -> None:
    told.made()
    told.made(draw=0.999)
    del logged[:]
    for _ in range(2):
        with tracer.start_as_current_span("SubmitTasks"):
            for draw in (0.0, 0.999, 0.0, 0.999):
                told.made(SECRETS | {"affinity_key": ""}, draw=draw)
    assert not logged  # neither the first of the minute nor sampled
    found = events(exported)
    assert [[event["tradewind.region"] for event in each] for each in found] == [["eu", "us"]] * 2
    first = found[0][0]
    assert (first["tradewind.rule"], first["tradewind.step"]) == ("home", "home")
    assert json.loads(first["tradewind.decision"])["candidates"][0]["region"] == "eu"
    assert MARKER not in repr(found)


def test_a_span_that_does_not_record_costs_no_reckoning(
    told: Told, logged: list[dict[str, Any]], tracer: Tracer
) -> None:
    told.made()
    over = tracer.start_span("over")
    over.end()
    with use_span(over):
        told.made()
    assert (told.reckoned, len(logged)) == (1, 1)


def test_without_opentelemetry_the_log_is_all(
    told: Told, logged: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "get_current_span", None)
    told.made()
    assert len(logged) == 1
