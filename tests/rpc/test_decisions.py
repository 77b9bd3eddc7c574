"""What a real router says of its decisions: in its log, and on the spans of whoever traces it."""

import io
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.instrumentation.grpc import GrpcAioInstrumentorServer
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.rpc.running import Running, answered, running, spec
from tradewind.client.views import route_of
from tradewind.errors import TradewindError
from tradewind.fleet import Fleet
from tradewind.logs import JsonFormatter
from tradewind.v1 import router_pb2

MARKER = "m4rk3r"
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE_ID}-b7ad6b7169203331-01"

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Every line that anything in this process logs, as a router would write it."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter({"service": "router"}))
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield lambda: [json.loads(line) for line in out.getvalue().splitlines()]
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """Spans of the calls of every router that starts meanwhile."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor: Any = GrpcAioInstrumentorServer()
    instrumentor.instrument(tracer_provider=provider)
    yield exporter
    instrumentor.uninstrument()


@pytest.fixture
async def abroad(fleet: Fleet, lines: Lines, spans: InMemorySpanExporter) -> AsyncIterator[Running]:
    """A router in us-east, whose log and spans are looked at."""
    async with running(fleet, "us-east") as router:
        yield router


def decided(lines: Lines) -> list[dict[str, Any]]:
    return [line for line in lines() if line["logger"] == "tradewind.decision"]


def marked(**fields: Any) -> dict[str, Any]:
    """A task that has the marker wherever its caller can write."""
    return {
        "name": f"name.{MARKER}",
        "queue": f"queue.{MARKER}",
        "payload": json.dumps({MARKER: MARKER}).encode(),
        "tenant": MARKER,
        "labels": {MARKER: MARKER},
        "affinity_key": MARKER,
        "residency": ["eu"],
    } | fields


async def test_the_log_of_a_submit_has_the_object_that_explain_prints(
    abroad: Running, lines: Lines
) -> None:
    await abroad.staff()
    shown = asdict(route_of(await abroad.explain(request_id="r", origin_region="eu-west")))
    await abroad.submit(request_id="r", origin_region="eu-west", tenant=MARKER)

    (line,) = decided(lines)
    assert (line["queue"], line["handler"]) == ("default", "email.send")
    assert line["origin"] == "eu-west"
    told = line["decision"]
    assert told.keys() == shown.keys() - {"partition", "waits_for"}
    assert (told["region"], told["rule"], told["step"], told["home"]) == (
        "eu-west",
        *["home"] * 2,
        "eu-west",
    )
    for mine, theirs in zip(told["candidates"], shown["candidates"], strict=True):
        assert mine.keys() == theirs.keys()
        assert mine["parts"].keys() == theirs["parts"].keys()
        assert (mine["region"], mine["reasons"]) == (theirs["region"], list(theirs["reasons"]))
    assert MARKER not in json.dumps(line)


async def test_a_refused_submit_says_in_the_log_what_keeps_each_region_out(
    abroad: Running, lines: Lines
) -> None:
    with pytest.raises(TradewindError):
        await abroad.submit(residency=["us"], pin_region="eu-west")

    (line,) = decided(lines)
    assert line["decision"]["region"] == ""
    reasons = {each["region"]: each["reasons"] for each in line["decision"]["candidates"]}
    assert reasons == {
        "eu-west": ["outside the fence"],
        "us-east": ["not the pinned region"],
        "ap-south": ["outside the fence", "not the pinned region"],
    }


async def test_a_call_that_is_traced_has_the_decision_on_its_span_in_the_callers_trace(
    abroad: Running, spans: InMemorySpanExporter
) -> None:
    await abroad.staff()
    requests = [spec(), spec(), spec(pin_region="eu-west"), spec(residency=["eu"], tenant=MARKER)]
    batch = router_pb2.SubmitTasksRequest(specs=requests)
    await abroad.router.SubmitTasks(batch, metadata=(("traceparent", TRACEPARENT),))

    (span,) = [each for each in spans.get_finished_spans() if each.name.endswith("SubmitTasks")]
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == TRACE_ID
    found = [dict(each.attributes or {}) for each in span.events]
    told = [(each["tradewind.region"], each["tradewind.step"]) for each in found]
    assert told == [("us-east", "home"), ("eu-west", "pin")]
    regions = json.loads(str(found[0]["tradewind.decision"]))["candidates"]
    assert {each["region"] for each in regions} == set(abroad.fleet.regions)


async def test_nothing_of_a_task_is_logged_or_traced_outside_its_fence(
    abroad: Running, lines: Lines, spans: InMemorySpanExporter
) -> None:
    stored = await abroad.submit(**marked())
    await abroad.submit(**marked(idempotency_key=MARKER))
    await abroad.submit(**marked(idempotency_key=MARKER))
    await abroad.submit(**marked(request_id=MARKER, delay=timedelta(hours=1)))
    await abroad.explain(**marked())
    refused = (
        marked(pin_region="us-east"),
        marked(payload=f'{{"{MARKER}": NaN}}'.encode()),
        marked(name=f"{MARKER} {MARKER}"),
        marked(idempotency_key=MARKER, payload=b'{"other": 1}'),
    )
    for fields in refused:
        with pytest.raises(TradewindError):
            await abroad.submit(**fields)
    batch = [spec(**marked()) for _ in range(3)] + [spec(**fields) for fields in refused]
    await abroad.router.SubmitTasks(router_pb2.SubmitTasksRequest(specs=batch))

    async def stream() -> AsyncIterator[router_pb2.SubmitTaskStreamRequest]:
        yield router_pb2.SubmitTaskStreamRequest(sequence=1, specs=batch)

    async for reply in abroad.router.SubmitTaskStream(stream()):
        assert reply.results
    assert (await abroad.get(stored.task_id)).spec.tenant == MARKER
    request = router_pb2.CancelTaskRequest(task_id=stored.task_id)
    assert (await answered(abroad.router.CancelTask(request))).cancelled

    assert decided(lines) == []
    assert MARKER not in json.dumps(lines())
    seen = spans.get_finished_spans()
    assert {"SubmitTask", "SubmitTasks", "SubmitTaskStream"} <= {
        each.name.rpartition("/")[2] for each in seen
    }
    assert not [event for each in seen for event in each.events if event.name != "exception"]
    assert MARKER not in "".join(str(each.to_json()) for each in seen)


async def test_inside_the_fence_the_same_tasks_are_told_of_and_their_secrets_are_not(
    fleet: Fleet, lines: Lines, spans: InMemorySpanExporter
) -> None:
    async with running(fleet, "eu-west") as home:
        secret = marked(name="email.send", queue="default", idempotency_key=MARKER)
        receipt = await home.submit(**secret, request_id=MARKER)
    assert receipt.region == "eu-west"
    assert MessageToJson(receipt)
    assert len(decided(lines)) == 1
    assert MARKER not in json.dumps(lines())
    (span,) = [each for each in spans.get_finished_spans() if each.name.endswith("SubmitTask")]
    assert [event.name for event in span.events] == ["tradewind.decision"]
    assert MARKER not in str(span.to_json())
