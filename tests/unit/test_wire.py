import math

import pytest

from tradewind import codec, wire
from tradewind.ids import mint
from tradewind.state import State
from tradewind.task import Failure, Heartbeat, LiveWorker, Priority, QueueCounts, Record
from tradewind.v1 import task_pb2
from tradewind.v1.task_pb2 import TaskSpec
from tradewind.view import Candidate, Decision, RegionView

TASK_ID = mint(1_767_225_600_000, 77, 12, 4711)


def packed(spec: TaskSpec) -> bytes:
    return codec.pack(
        wire.draft(spec, delay_ms=0, timeout_ms=0),
        fingerprint=b"\xab" * 32,
        fence=("eu",),
        traceparent="",
        birth_region="eu-west",
        deduplicated=False,
    )


def record(**changes: object) -> Record:
    facts: dict[str, object] = {
        "task_id": TASK_ID,
        "region": "eu-west",
        "state": State.PENDING,
        "packed": packed(TaskSpec(name="n", payload=b"{}")),
        "epoch": 1,
        "token": 0,
        "attempts": 0,
        "crashes": 0,
        "created_ms": 1_000,
    }
    return Record(**(facts | changes))  # type: ignore[arg-type]


def test_a_draft_has_every_field_of_its_spec() -> None:
    spec = TaskSpec(
        queue="mail",
        name="email.send",
        payload=b"{}",
        content_type="text/plain",
        priority=task_pb2.PRIORITY_LOW,
        affinity_key="user-42",
        tenant="acme",
        labels={"a": "b"},
        idempotency_key="key",
        request_id="request",
        residency=["eu", "us"],
        pin_region="eu-west",
        max_attempts=3,
        origin_region="us-east",
        expires_at={"seconds": 1_767_225_600, "nanos": 1_999_999},
    )

    draft = wire.draft(spec, delay_ms=10, timeout_ms=20)

    assert (draft.queue, draft.name, draft.payload) == ("mail", "email.send", b"{}")
    assert (draft.content_type, draft.priority) == ("text/plain", Priority.LOW)
    assert (draft.affinity_key, draft.tenant, draft.labels) == ("user-42", "acme", {"a": "b"})
    assert (draft.idempotency_key, draft.request_id) == ("key", "request")
    assert (draft.residency, draft.pin_region) == (("eu", "us"), "eu-west")
    assert (draft.delay_ms, draft.timeout_ms, draft.max_attempts) == (10, 20, 3)
    assert draft.origin_region == "us-east"
    assert draft.expires_ms == 1_767_225_600_001  # rounded down: never started late
    assert TaskSpec.FromString(draft.spec) == spec


def test_defaults_are_filled_in_before_a_spec_is_stored() -> None:
    stored = codec.unpack(packed(TaskSpec(name="n"))).spec

    assert stored.queue == "default"
    assert stored.content_type == "application/json"
    assert stored.priority == task_pb2.PRIORITY_NORMAL


def test_a_record_becomes_a_task() -> None:
    shown = wire.task(
        record(
            state=State.COMPLETED,
            attempts=2,
            started_ms=2_000,
            finished_ms=3_000,
            fence=("eu",),
            result=b"1",
            result_content_type="application/json",
            settled=True,
        ),
        whole=True,
    )

    assert shown.task_id == TASK_ID
    assert (shown.state, shown.region, shown.partition) == (
        task_pb2.TASK_STATE_COMPLETED,
        "eu-west",
        12,
    )
    assert shown.fingerprint == "ab" * 32
    assert shown.created_at.ToMilliseconds() == 1_000
    assert shown.started_at.ToMilliseconds() == 2_000
    assert shown.finished_at.ToMilliseconds() == 3_000
    assert (shown.result, shown.result_content_type) == (b"1", "application/json")
    assert shown.settled
    assert list(shown.fence) == ["eu"]
    assert not shown.HasField("error")


def test_what_has_not_happened_is_absent() -> None:
    shown = wire.task(record(), whole=True)

    for field in ("started_at", "finished_at", "next_attempt_at", "error", "progress"):
        assert not shown.HasField(field)


def test_lists_carry_neither_payload_nor_result() -> None:
    shown = wire.task(record(state=State.COMPLETED, result=b"1"), whole=False)

    assert (shown.spec.name, shown.spec.payload, shown.result) == ("n", b"", b"")


@pytest.mark.parametrize("state", [State.SCHEDULED, State.FAILED])
def test_the_next_attempt_is_shown_while_one_is_waited_for(state: State) -> None:
    assert wire.task(record(state=state, next_attempt_ms=5), whole=True).HasField("next_attempt_at")


def test_the_present_stay_is_the_last_hop_and_began_when_the_one_before_ended() -> None:
    hops = codec.add_hop(
        b"", region="us-east", state=State.DEAD_LETTER, attempts=5, reason="timeout", at_ms=9_000
    )

    first, second = wire.task(record(hops=hops, attempts=1), whole=True).hops

    assert (first.region, first.attempts, first.reason) == ("us-east", 5, "timeout")
    assert (second.region, second.attempts, second.reason) == ("eu-west", 1, "")
    assert second.state == task_pb2.TASK_STATE_PENDING
    assert second.at.ToMilliseconds() == 9_000


def test_the_first_stay_began_when_the_task_was_created() -> None:
    (hop,) = wire.task(record(), whole=True).hops

    assert hop.at.ToMilliseconds() == 1_000


KINDS = {
    "a death goes before the last failure": ("crashed", Failure("error", "boom"), "crashed"),
    "an attempt that raised, with others left": ("", Failure("error", "boom"), ""),
    "an attempt that ran too long": ("", Failure("timeout"), "timeout"),
    "a lost worker": ("", Failure("worker-lost"), "crashed"),
    "a result that was too large": ("rejected", Failure("result-too-large"), "rejected"),
    "a task that cannot be read": ("damaged", Failure("damaged"), "damaged"),
}


@pytest.mark.parametrize(("death", "failure", "kind"), KINDS.values(), ids=KINDS)
def test_error_kinds_are_the_closed_ones(death: str, failure: Failure, kind: str) -> None:
    shown = wire.task(record(death=death, failure=failure), whole=True)

    assert (shown.error.kind, shown.error.message) == (kind, failure.message)


def test_a_damaged_record_is_shown_without_its_spec() -> None:
    shown = wire.task(record(packed=b"\xff", hops=b"\xff", state=State.DEAD_LETTER), whole=True)

    assert shown.task_id == TASK_ID
    assert not shown.HasField("spec")
    assert len(shown.hops) == 1


def of(spec: TaskSpec) -> Record:
    """A record whose fingerprint was not stored."""
    draft = wire.draft(spec, delay_ms=0, timeout_ms=0)
    return record(packed=codec.pack(draft, fence=(), traceparent="", deduplicated=False))


@pytest.mark.parametrize(
    ("spec", "whole", "digits"),
    [
        pytest.param(TaskSpec(name="n", payload=b"{}"), True, 64, id="alone"),
        pytest.param(TaskSpec(name="n", payload=b"{}"), False, 0, id="in a list"),
        pytest.param(
            TaskSpec(name="n", idempotency_key="k"), False, 64, id="in a list, by its key"
        ),
        pytest.param(TaskSpec(name="n", payload=b'{"'), True, 0, id="of a damaged payload"),
    ],
)
def test_a_list_of_tasks_reads_no_payloads_for_their_fingerprints(
    spec: TaskSpec,
    whole: bool,
    digits: int,
) -> None:
    shown = wire.task(of(spec), whole=whole)

    assert (shown.spec.name, len(shown.fingerprint)) == ("n", digits)


def test_a_decision_shows_every_candidate_and_no_infinities() -> None:
    choice = Decision(
        region="eu-west",
        rule="default",
        candidates=(
            Candidate("eu-west", True, "", 1.5, 0.25, 0.3, 1.0),
            Candidate("us-east", False, "down", 80.0, math.inf, math.inf, 0.0),
        ),
        fence=(),
        ledger_home="us-east",
        reason="home",
        policy_version="v1",
    )

    shown = wire.decision(choice, partition=3)

    assert (shown.region, shown.rule, shown.partition) == ("eu-west", "home", 3)
    assert (shown.ledger_home, shown.policy_version) == ("us-east", "v1")
    assert shown.candidates[0].rtt.ToMicroseconds() == 1_500
    assert shown.candidates[0].expected_wait.ToMilliseconds() == 250
    assert shown.candidates[1].excluded_by == "down"
    assert not shown.candidates[1].HasField("expected_wait")


def test_a_rule_that_matched_is_what_decided() -> None:
    choice = Decision("eu-west", "eu-personal-data", (), (), reason="home")

    assert wire.decided_by(choice) == "eu-personal-data"


def test_a_region_shows_what_the_census_knows() -> None:
    view = RegionView("eu-west", 1.5, health="DEGRADED", depth=7, slots=4)

    shown = wire.region(view, expected_wait_s=2.0, workers=1)

    assert (shown.name, shown.health) == ("eu-west", task_pb2.HEALTH_DEGRADED)
    assert (shown.pending, shown.live_slots, shown.workers) == (7, 4, 1)
    assert shown.expected_wait.ToMilliseconds() == 2_000
    assert not wire.region(view, expected_wait_s=math.inf, workers=0).HasField("expected_wait")


def test_a_worker_shows_its_heartbeat() -> None:
    beat = Heartbeat("w1", "eu-west", ("b", "a"), ("h",), 4, 1, 0.5, 0.1, 1_000, "0.1.0")

    shown = wire.worker(LiveWorker(beat, 10))

    assert (shown.worker_id, list(shown.queues), list(shown.handlers)) == ("w1", ["a", "b"], ["h"])
    assert (shown.slots, shown.busy, shown.version) == (4, 1, "0.1.0")
    assert shown.started_at.ToMilliseconds() == 1_000


def test_a_queue_shows_its_counts() -> None:
    counts = QueueCounts((1, 2, 3), 4, 5, 6, 7, 8)
    shown = wire.queue_stats("eu-west", "mail", counts, oldest_ms=1_500)

    assert (shown.pending_high, shown.pending_normal, shown.pending_low) == (1, 2, 3)
    assert (shown.pending, shown.scheduled, shown.processing) == (6, 4, 5)
    assert (shown.failed, shown.moving, shown.dead) == (6, 7, 8)
    assert shown.oldest_age.ToMilliseconds() == 1_500
    empty = wire.queue_stats("eu-west", "mail", QueueCounts(), oldest_ms=None)
    assert not empty.HasField("oldest_age")


def test_progress_and_a_requested_cancel_are_those_of_the_attempt() -> None:
    running = record(
        state=State.PROCESSING, progress=0.5, progress_note="half", cancel_requested=True
    )
    shown = wire.task(running, whole=False)
    assert (shown.progress.fraction, shown.progress.note) == (0.5, "half")
    assert shown.cancel_requested
    ended = wire.task(record(state=State.CANCELLED, cancel_requested=True), whole=False)
    assert not ended.HasField("progress")
    assert not ended.cancel_requested  # confirmed
