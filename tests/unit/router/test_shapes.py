from typing import Any

import pytest

from router.shapes import Shapes
from tradewind import wire
from tradewind.admission import admit
from tradewind.errors import InvalidTask, PayloadTooLarge
from tradewind.fingerprint import read_body
from tradewind.fleet import Affinity, Fleet, Match, RedisTarget, Region, Rule
from tradewind.limits import MAX_KEY_BYTES, MAX_PAYLOAD_BYTES
from tradewind.policy.rules import resolve
from tradewind.v1 import task_pb2
from tradewind.v1.task_pb2 import TaskSpec

HERE = RedisTarget("standalone", ("127.0.0.1:1",))
FLEET = Fleet(
    regions={name: Region(name, HERE, (group,)) for name, group in (("a", "eu"), ("b", "us"))},
    rules=(
        Rule("by-tenant", Match(tenants=("acme",)), affinity=Affinity("tenant")),
        Rule("pii", Match(labels={"data": "pii"}), residency=("eu",)),
    ),
)
NOW_MS = 1_767_225_600_000

SPECS: dict[str, dict[str, Any]] = {
    "nothing but a name": {},
    "every field of its own": {
        "request_id": "r",
        "idempotency_key": "i",
        "affinity_key": "u",
        "payload": b'{"a":[1.0,"\\u00e9"]}',
    },
    "labels, tenant and times": {
        "labels": {"data": "pii", "x": "y"},
        "tenant": "t",
        "delay": {"seconds": 3},
        "timeout": {"seconds": 2, "nanos": 1},
        "max_attempts": 2,
        "priority": task_pb2.PRIORITY_LOW,
    },
    "an instant": {"not_before": {"seconds": NOW_MS // 1_000 + 60}},
    "an expiry": {"expires_at": {"seconds": NOW_MS // 1_000 + 60}},
    "a key by rule": {"tenant": "acme", "origin_region": "b"},
    "no JSON": {"content_type": "a/b", "payload": b"\xff"},
    "blanks around its JSON": {"payload": b' {"a": 1}\n'},
    "a number that is spelled anew": {"payload": b'{"a":1e400, "b":1}'.replace(b"400", b"40")},
}


def spec(**fields: Any) -> TaskSpec:
    given: dict[str, Any] = {"name": "n", "payload": b"{}"} | fields
    return TaskSpec(**given)


@pytest.mark.parametrize("fields", SPECS.values(), ids=SPECS)
def test_a_spec_of_a_known_shape_is_admitted_as_at_first(fields: dict[str, Any]) -> None:
    shapes = Shapes(FLEET)
    first = shapes.admit(spec(**fields), now_ms=NOW_MS)
    shapes.admit(spec(**fields | {"payload": b'{"z":1}', "request_id": "x"}), now_ms=NOW_MS)

    draft, body, resolved = shapes.admit(spec(**fields), now_ms=NOW_MS)

    at_length = spec(**fields)
    admitted = admit.check(at_length, FLEET, now_ms=NOW_MS)
    expected = wire.draft(
        at_length,
        delay_ms=admitted.delay_ms,
        not_before_ms=admitted.not_before_ms,
        timeout_ms=admitted.timeout_ms,
    )
    assert draft._replace(spec=b"") == first[0]._replace(spec=b"") == expected._replace(spec=b"")
    assert TaskSpec.FromString(draft.spec) == TaskSpec.FromString(expected.spec)
    assert (body.kind, body.data) == (admitted.body.kind, admitted.body.data)
    assert resolved == resolve(expected, FLEET)


BAD: dict[str, tuple[dict[str, Any], set[str]]] = {
    "bad JSON": ({"payload": b"{"}, {"payload"}),
    "an array": ({"payload": b"[]"}, {"payload"}),
    "half a surrogate pair": ({"payload": rb'{"a":"\ud800"}'}, {"payload"}),
    "a key twice": ({"payload": b'{"a":1,"a":1}'}, {"payload"}),
    "a long key and bad JSON": (
        {"affinity_key": "x" * (MAX_KEY_BYTES + 1), "payload": b"NaN"},
        {"affinity_key", "payload"},
    ),
    "a long request id": ({"request_id": "x" * (MAX_KEY_BYTES + 1)}, {"request_id"}),
}


@pytest.mark.parametrize(("fields", "named"), BAD.values(), ids=BAD)
def test_what_is_wrong_with_a_known_shape_is_told_in_full(
    fields: dict[str, Any], named: set[str]
) -> None:
    shapes = Shapes(FLEET)
    shapes.admit(spec(), now_ms=NOW_MS)

    with pytest.raises(InvalidTask) as refused:
        shapes.admit(spec(**fields), now_ms=NOW_MS)

    assert {violation.field for violation in refused.value.violations} == named


def test_a_payload_over_the_limit_is_told_as_such() -> None:
    shapes = Shapes(FLEET)
    shapes.admit(spec(), now_ms=NOW_MS)

    with pytest.raises(PayloadTooLarge):
        shapes.admit(spec(payload=b"x" * (MAX_PAYLOAD_BYTES + 1)), now_ms=NOW_MS)


def test_an_instant_is_judged_anew_by_each_time() -> None:
    shapes = Shapes(FLEET)
    soon = {"expires_at": {"seconds": NOW_MS // 1_000 + 60}}
    shapes.admit(spec(**soon), now_ms=NOW_MS)

    with pytest.raises(InvalidTask):
        shapes.admit(spec(**soon), now_ms=NOW_MS + 61_000)


def test_no_more_shapes_are_kept_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.shapes._MAX_SHAPES", 3)
    shapes = Shapes(FLEET)

    for number in range(10):
        shapes.admit(spec(name=f"n{number}"), now_ms=NOW_MS)
        shapes.admit(spec(tenant="t" * 2_000, name=f"m{number}"), now_ms=NOW_MS)

    known: Any = shapes
    assert 0 < len(known._known) <= 3
    assert all(len(shape) < 1_024 for shape in known._known)


def test_a_body_has_one_spelling_whenever_it_is_asked_for_it() -> None:
    body = read_body(b'{"b":1,"a":[1.50,2.0]}', "application/json")

    assert body.data == body.data == b'{"a":[1.5,2],"b":1}'
    assert body.digest() == read_body(b' {"a":[1.5,2],"b":1}', "application/json").digest()
