from typing import TypeVar

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from tradewind import errors, statuses
from tradewind.errors import TradewindError, Violation

M = TypeVar("M", bound=Message)

# Raised on the client's side or before a process serves: no router answers with them.
NEVER_SENT = {
    errors.ConfigErrors,
    errors.NoAnswer,
    errors.RouterUnreachable,
    errors.SetupError,
    errors.TaskCancelled,
    errors.TaskDead,
    errors.TaskExpired,
    errors.WaitOver,
}
SAMPLES: list[TradewindError] = [
    errors.BatchTooLarge(5_000_000, 4_194_304),
    errors.ControlConflict(),
    errors.ControlUnavailable(["us", "eu"]),
    errors.HomeUnreachable("eu-west"),
    errors.IdempotencyKeyReused("06fy"),
    errors.IdentityMismatch("us", "deployment", "theirs", "ours"),
    errors.InvalidTask([Violation("name", "is required"), Violation("payload", "not JSON")]),
    errors.LastRegion("eu", "rule pii (eu)"),
    errors.NoRegionPermitted("fence and pin exclude each other"),
    errors.NoRegionReachable("no permitted region answers"),
    errors.NotServedYet("CancelTask comes with a later release"),
    errors.OutcomeUnknown("06fy", deadline_passed=True),
    errors.OutcomeUnknown("06fy", deadline_passed=False),
    errors.PayloadTooLarge(2_000_000, 1_048_576),
    errors.PolicyRefused("regions.yaml:3:5: rules[0].residency: no region is in group eu"),
    errors.RegionSilent(["us", "eu"]),
    errors.RegionTakesWork("us"),
    errors.RegionsFull("all full"),
    errors.StoreContractBroken("a script answered what it may not"),
    errors.StoreFull("us"),
    errors.StoreMoving("us", 12),
    errors.StoreUnavailable("us", "connection refused", sent=False),
    errors.SubmitInFlight("06fy", 2_500),
    errors.UnknownTask("06fy"),
]


def leaves(kind: type[TradewindError]) -> set[type[TradewindError]]:
    below = kind.__subclasses__()
    ours = [sub for sub in below if sub.__module__.startswith("tradewind.errors.")]
    return {leaf for sub in ours for leaf in leaves(sub)} if ours else {kind}


def detail(status: status_pb2.Status, into: M) -> M | None:
    return next((into for any_ in status.details if any_.Unpack(into)), None)


def test_every_error_that_can_reach_a_client_has_a_row() -> None:
    assert leaves(TradewindError) - NEVER_SENT == set(statuses.CODES)


def test_reasons_are_unique_so_that_reading_back_is_certain() -> None:
    reasons = [kind.reason for kind in statuses.CODES]

    assert len(set(reasons)) == len(reasons)


def test_every_row_has_a_sample_here() -> None:
    assert {type(sample) for sample in SAMPLES} == set(statuses.CODES)


@pytest.mark.parametrize("error", SAMPLES, ids=lambda e: type(e).__name__)
def test_an_error_comes_back_as_the_same_class_with_its_fields(error: TradewindError) -> None:
    back = statuses.from_status(statuses.to_status(error))

    assert type(back) is type(error)
    assert vars(back) == vars(error)
    if not statuses.is_for_the_log(error):
        assert str(back) == str(error)


@pytest.mark.parametrize("error", SAMPLES, ids=lambda e: type(e).__name__)
def test_asking_again_helps_exactly_where_retry_info_says_when(error: TradewindError) -> None:
    status = statuses.to_status(error)
    retry = detail(status, error_details_pb2.RetryInfo())

    assert (retry is not None) == error.retryable
    if error.retryable:
        assert statuses.code_of(error) in {
            grpc.StatusCode.ABORTED,
            grpc.StatusCode.DEADLINE_EXCEEDED,
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            grpc.StatusCode.UNAVAILABLE,
        }
    elif statuses.code_of(error) is grpc.StatusCode.RESOURCE_EXHAUSTED:
        assert isinstance(error, errors.PayloadTooLarge | errors.BatchTooLarge)
    else:
        assert statuses.code_of(error) is not grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("error", SAMPLES, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_that_nothing_was_kept_travels_with_any_error(
    error: TradewindError, elsewhere: bool
) -> None:
    before = statuses.from_status(statuses.to_status(error))
    said = statuses.from_status(statuses.to_status(error))
    said.nothing_kept, said.elsewhere = True, elsewhere

    status = statuses.to_status(said)
    back = statuses.from_status(status)

    info = detail(status, error_details_pb2.ErrorInfo())
    assert info is not None
    assert info.metadata["kept"] == "no"
    assert ("elsewhere" in info.metadata) == elsewhere
    assert (back.nothing_kept, back.elsewhere) == (True, elsewhere)
    assert (before.nothing_kept, before.elsewhere) == (False, False)


def test_an_unknown_outcome_says_whether_the_deadline_passed() -> None:
    passed = statuses.to_status(errors.OutcomeUnknown("06fy", deadline_passed=True))
    open_ = statuses.to_status(errors.OutcomeUnknown("06fy", deadline_passed=False))

    assert passed.code == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
    assert open_.code == grpc.StatusCode.UNAVAILABLE.value[0]
    info = detail(open_, error_details_pb2.ErrorInfo())
    assert info is not None
    assert (info.domain, info.reason) == ("tradewind", "OUTCOME_UNKNOWN")
    assert info.metadata["task_id"] == "06fy"


def test_a_submit_in_flight_is_repeated_when_the_other_lease_ends() -> None:
    retry = detail(
        statuses.to_status(errors.SubmitInFlight("06fy", 2_500)), error_details_pb2.RetryInfo()
    )

    assert retry is not None
    assert retry.retry_delay.ToMilliseconds() == 2_500


def test_violations_name_their_fields() -> None:
    invalid = next(sample for sample in SAMPLES if isinstance(sample, errors.InvalidTask))
    bad = detail(statuses.to_status(invalid), error_details_pb2.BadRequest())

    assert bad is not None
    assert [(v.field, v.description) for v in bad.field_violations] == [
        ("name", "is required"),
        ("payload", "not JSON"),
    ]


def test_an_unknown_error_shows_nothing_of_itself() -> None:
    status = statuses.to_status(RuntimeError("WRONGTYPE the secret payload"))

    assert status.code == grpc.StatusCode.INTERNAL.value[0]
    assert "secret" not in str(status)
    assert not statuses.is_known(RuntimeError())


def test_what_a_script_answered_against_its_contract_is_not_shown() -> None:
    status = statuses.to_status(errors.StoreContractBroken("WRONGTYPE Operation against a key"))

    assert "WRONGTYPE" not in str(status)
    assert statuses.is_for_the_log(errors.StoreContractBroken(""))


def test_details_fit_the_trailing_metadata_however_many_fields_are_wrong() -> None:
    many = errors.InvalidTask([Violation(f"labels[{n}]", "x" * 500) for n in range(200)])
    status = statuses.to_status(many)

    assert status.ByteSize() < 5_000
    bad = detail(status, error_details_pb2.BadRequest())
    assert bad is not None
    assert bad.field_violations[-1].description.endswith("more problems")


@pytest.mark.parametrize(
    "status",
    [
        status_pb2.Status(code=14, message="from a proxy"),
        status_pb2.Status(code=14),
    ],
)
def test_a_status_of_somebody_else_is_a_plain_error(status: status_pb2.Status) -> None:
    assert type(statuses.from_status(status)) is TradewindError


def test_a_field_that_cannot_be_read_leaves_a_plain_error() -> None:
    status = status_pb2.Status(code=8, message="too large")
    info = error_details_pb2.ErrorInfo(domain="tradewind", reason="PAYLOAD_TOO_LARGE")
    info.metadata["size_bytes"] = "many"
    status.details.add().Pack(info)

    back = statuses.from_status(status)

    assert type(back) is TradewindError
    assert str(back) == "too large"
