import asyncio
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Optional, TypedDict, Unpack

import pytest

from tradewind.handlers import (
    App,
    Context,
    Reject,
    Result,
    ResultTooLarge,
    Retry,
    Signals,
    encode_result,
)
from tradewind.limits import MAX_RESULT_BYTES

CTX = Context(task_id="t1")
JSON = "application/json"


def call(function: Callable[..., Any], payload: Any, content_type: str = JSON) -> Any:
    app = App()
    app.task("t")(function)
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return app.handlers["t"].call(CTX, data, content_type)()


def plain(a: int, b: str = "x") -> tuple[int, str]:
    return a, b


def with_context(ctx: Context, a: int) -> tuple[str, int]:
    return ctx.task_id, a


NAMES = "abcdefgh"


class Members(TypedDict):
    a: int
    b: int
    c: int
    d: int
    e: int
    f: int
    g: int
    h: int


@dataclass
class Fields:
    a: int
    b: int
    c: int
    d: int
    e: int
    f: int
    g: int
    h: int


def eight(a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int) -> None:
    pass


def unpacked(**each: Unpack[Members]) -> None:
    pass


def one_dict(x: Members) -> None:
    pass


def one_object(x: Fields) -> None:
    pass


def unhinted(ctx, a):  # noqa: ANN001, ANN201  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
    return ctx.task_id, a  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def anything(a: Any) -> Any:
    return a


def maybe(a: int | None = None) -> Any:
    return a


def older_maybe(a: Optional[float] = None) -> Any:  # noqa: UP045 - people write it
    return a


def nested(a: list[dict[str, int]]) -> Any:
    return a


def pair(a: tuple[int, ...]) -> Any:
    return a


def choice(a: Literal["up", 1]) -> Any:
    return a


def flag(a: bool) -> Any:
    return a


def number(a: float) -> Any:
    return a


def open_ended(**rest: int) -> Any:
    return rest


def raw(payload: bytes) -> Any:
    return payload


ACCEPTED: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "members become keyword arguments": (plain, {"a": 1, "b": "y"}, (1, "y")),
    "a default stands in for a missing member": (plain, {"a": 1}, (1, "x")),
    "the context comes first": (with_context, {"a": 1}, ("t1", 1)),
    "ctx needs no hint": (unhinted, {"a": [1]}, ("t1", [1])),
    "Any takes any JSON": (anything, {"a": {"x": [None, 1.5]}}, {"x": [None, 1.5]}),
    "an optional takes null": (maybe, {"a": None}, None),
    "an optional takes its type": (maybe, {"a": 3}, 3),
    "1.0 is the integer 1": (maybe, {"a": 1.0}, 1),
    "an integer is a float": (older_maybe, {"a": 3}, 3.0),
    "lists and objects are checked inside": (nested, {"a": [{"x": 1}]}, [{"x": 1}]),
    "a tuple of any length": (pair, {"a": [1, 2]}, (1, 2)),
    "a literal": (choice, {"a": "up"}, "up"),
    "a bool": (flag, {"a": True}, True),
    "**rest takes what is left": (open_ended, {"x": 1, "y": 2}, {"x": 1, "y": 2}),
    "an empty payload is an empty object": (maybe, b"", None),
    "bytes get JSON as it came": (raw, b'{"a": 1 }', b'{"a": 1 }'),
}


@pytest.mark.parametrize(("function", "payload", "expected"), ACCEPTED.values(), ids=ACCEPTED)
def test_payloads_that_fit(function: Callable[..., Any], payload: Any, expected: Any) -> None:
    got = call(function, payload)
    assert (got, type(got)) == (expected, type(expected))


REFUSED: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "a missing argument is named": (plain, {}, "argument a is missing"),
    "an unexpected one, too": (
        plain,
        {"a": 1, "c": 2},
        "argument c is unexpected; known: a, b",
    ),
    "a wrong type says both types": (plain, {"a": "1"}, "argument a: expected int, got str"),
    "true is no number": (plain, {"a": True}, "argument a: expected int, got bool"),
    "one is not true": (flag, {"a": 1}, "argument a: expected bool, got int"),
    "half is no integer": (
        plain,
        {"a": 0.5},
        "argument a: expected int, got a float with a fraction",
    ),
    "null only where it is allowed": (plain, {"a": None}, "argument a: expected int, got null"),
    "the place inside is named": (
        nested,
        {"a": [{"x": 1}, {"secret": "v"}]},
        "argument a[1][...]: expected int, got str",
    ),
    "a union lists its parts": (maybe, {"a": "x"}, "argument a: expected int or None, got str"),
    "a literal lists its choices": (choice, {"a": True}, "argument a: expected one of 'up', 1"),
    "a number beyond float": (
        number,
        {"a": 10**400},
        "argument a: the number is too large for a float",
    ),
    "an array is no object": (
        plain,
        [1],
        "the payload must be a JSON object: its members are the handler's arguments",
    ),
    "broken JSON": (plain, b"{", "the payload is not valid JSON"),
}


@pytest.mark.parametrize(("function", "payload", "reason"), REFUSED.values(), ids=REFUSED)
def test_payloads_that_do_not_fit(function: Callable[..., Any], payload: Any, reason: str) -> None:
    with pytest.raises(Reject) as refused:
        call(function, payload)
    assert refused.value.reason == reason


def test_other_content_types_reach_the_single_argument_as_bytes() -> None:
    assert call(raw, b"\xff", "image/png") == b"\xff"
    assert call(anything, b"\xff", "image/png") == b"\xff"
    with pytest.raises(Reject, match="does not take bytes"):
        call(plain, b"\xff", "image/png")


def test_json_is_recognised_with_parameters_and_suffix() -> None:
    assert call(maybe, {"a": 1}, "application/json; charset=utf-8") == 1
    assert call(maybe, {"a": 1}, "application/problem+json") == 1


def later_hint(a: "Later") -> Any:
    return a


Later = int


def test_a_hint_may_name_what_is_defined_further_down() -> None:
    assert call(later_hint, {"a": 1}) == 1


def with_class(a: Context, b: App) -> None:
    pass


def two_bytes(a: bytes, b: int) -> None:
    pass


def starred(*items: int) -> None:
    pass


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (with_class, "task 't': parameter b: hint App says nothing about JSON"),
        (two_bytes, "task 't': parameter a: bytes can only be the single parameter"),
        (starred, "task 't': parameter items cannot be filled by name"),
    ],
    ids=["a class of the app", "bytes beside others", "starred"],
)
def test_signatures_that_no_payload_can_fill(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        App().task("t")(function)


def test_a_registered_function_stays_callable() -> None:
    assert App().task("t")(plain) is plain


def test_settings_are_kept_in_milliseconds() -> None:
    app = App()
    app.task("a", timeout=1.5, attempts=8)(plain)
    app.task("b", timeout=timedelta(minutes=1))(plain)
    settings = [(h.timeout_ms, h.attempts) for h in app.handlers.values()]
    assert settings == [(1500, 8), (60_000, None)]


@pytest.mark.parametrize("name", ["", "a b", "é", "a" * 201, "a\n", "{x}"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no task name"):
        App().task(name)


@pytest.mark.parametrize("timeout", [0, -1, 43_201, math.inf, math.nan])
def test_bad_timeouts_are_refused(timeout: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        App().task("t", timeout=timeout)


@pytest.mark.parametrize("attempts", [0, -1, 10_001])
def test_bad_attempts_are_refused(attempts: int) -> None:
    with pytest.raises(ValueError, match="attempts must be"):
        App().task("t", attempts=attempts)


def test_two_handlers_of_one_name_are_refused() -> None:
    app = App()
    app.task("t")(plain)
    with pytest.raises(ValueError, match="two handlers"):
        app.task("t")(raw)


def test_a_generator_is_refused() -> None:
    def stream() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="generator"):
        App().task("t")(stream)


def test_coroutine_functions_and_objects_are_told_apart() -> None:
    class Worker:
        async def __call__(self, a: int) -> int:
            return a

    app = App()
    app.task("object")(Worker())
    app.task("plain")(plain)
    assert [handler.is_async for handler in app.handlers.values()] == [True, False]
    assert asyncio.run(app.handlers["object"].call(CTX, b'{"a": 1}', JSON)()) == 1


RESULTS: dict[str, tuple[Any, Result]] = {
    "bytes stay as they are": (b"\xff", Result(b"\xff", "application/octet-stream")),
    "an object is JSON": ({"a": [1, "é"]}, Result('{"a":[1,"é"]}'.encode(), JSON)),
    "nothing is null": (None, Result(b"null", JSON)),
    "text is JSON": ("x", Result(b'"x"', JSON)),
}


@pytest.mark.parametrize(("value", "expected"), RESULTS.values(), ids=RESULTS)
def test_results(value: Any, expected: Result) -> None:
    assert encode_result(value) == expected


@pytest.mark.parametrize("value", [object(), {"a": 1j}, math.nan, "\ud800"])
def test_what_json_cannot_say_is_an_error(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        encode_result(value)


def test_a_result_over_the_limit_says_so() -> None:
    assert len(encode_result(b"x" * MAX_RESULT_BYTES).data) == MAX_RESULT_BYTES
    with pytest.raises(ResultTooLarge, match="262145 bytes, the limit is 262144"):
        encode_result(b"x" * (MAX_RESULT_BYTES + 1))


def test_retry_takes_seconds_or_a_timedelta() -> None:
    assert [Retry().after_ms, Retry(after=1.5).after_ms] == [0, 1500]
    assert Retry(timedelta(minutes=1)).after_ms == 60_000
    for bad in (-1, math.nan, math.inf, 31 * 86_400):
        with pytest.raises(ValueError, match=r"Retry|finite"):
            Retry(after=bad)


def test_the_context_shows_what_the_worker_signals() -> None:
    signals = Signals()
    ctx = Context(task_id="t1", signals=signals)
    before = (ctx.cancelled, ctx.lease_doubtful)
    signals.cancelled.set()
    signals.doubtful.set()
    assert (before, (ctx.cancelled, ctx.lease_doubtful)) == ((False, False), (True, True))


async def test_progress_can_be_awaited_or_just_called() -> None:
    reports: list[tuple[float, str]] = []
    ctx = Context(task_id="t1")
    await ctx.progress(0.25)  # nobody listens: a handler can be tested without a worker
    ctx.signals.report = lambda fraction, note: reports.append((fraction, note))
    await ctx.progress(0.5, "half")
    ctx.progress(1)
    assert reports == [(0.5, "half"), (1.0, "")]
    for outside in (1.1, -0.1, float("nan")):
        with pytest.raises(ValueError, match="0 to 1"):
            ctx.progress(outside)


def test_a_handler_that_looks_is_known_to_have_noticed() -> None:
    ctx = Context(task_id="t1")
    seen = [(ctx.cancelled, ctx.signals.noticed.is_set())]
    ctx.signals.cancelled.set()
    seen.append((ctx.cancelled, ctx.signals.noticed.is_set()))
    assert seen == [(False, False), (True, True)]


def test_log_lines_carry_the_task(caplog: pytest.LogCaptureFixture) -> None:
    Context(task_id="t9", attempt=2, region="eu").log.warning("slow", extra={"ms": 5})
    marks = vars(caplog.records[0])
    assert (marks["task_id"], marks["attempt"], marks["task_region"], marks["ms"]) == (
        "t9",
        2,
        "eu",
        5,
    )


@pytest.mark.parametrize(
    ("function", "of"), [(eight, ""), (unpacked, ""), (one_dict, "x."), (one_object, "x.")]
)
def test_of_several_missing_arguments_the_first_is_named(
    function: Callable[..., Any], of: str
) -> None:
    given: dict[str, int] = {}
    for name in NAMES:
        with pytest.raises(Reject) as caught:
            call(function, {"x": given} if of else given)
        assert str(caught.value) == f"argument {of}{name} is missing"
        given[name] = 1
