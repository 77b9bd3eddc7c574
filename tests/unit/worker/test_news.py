"""What is said of a dead task, and to whom."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tradewind import codec, ids
from tradewind.fleet import DeadTaskHandler, Fleet, QueuePolicy, Webhook
from tradewind.state import State
from tradewind.task import Draft, Notice, Record
from tradewind.v1.task_pb2 import TaskSpec
from worker import news

TASK_ID = ids.mint(1_700_000_000_000, ids.region_code("eu-west"), 3, 1)
FINGERPRINT = bytes(range(32))
TELL = DeadTaskHandler("tell", "ops")
FLEET = Fleet(regions={}, queues={"ops": QueuePolicy(max_crashes=7)})
BARE = {"task_id", "region", "queue", "name", "kind", "attempts", "crashes", "hops", "died_at"}
WHOLE = BARE | {"tenant", "fingerprint"}


def packed() -> bytes:
    spec = TaskSpec(queue="mail", name="send", tenant="acme", payload=b'{"to": "hunter2"}')
    return codec.pack(
        Draft("send", spec=spec.SerializeToString()),
        fingerprint=FINGERPRINT,
        fence=(),
        traceparent="00-trace",
        birth_region="us-east",
        deduplicated=False,
    )


def a_notice(fence: tuple[str, ...] = (), **fields: Any) -> Notice:
    hops = codec.add_hop(
        b"", region="us-east", state=State.DEAD_LETTER, attempts=5, reason="timeout", at_ms=1
    )
    record = Record(
        TASK_ID,
        "eu-west",
        State.DEAD_LETTER,
        fields.pop("packed", packed()),
        2,
        77,
        5,
        1,
        0,
        finished_ms=1_700_000_000_123,
        fence=fence,
        death="exhausted",
        hops=hops,
        settled=True,
    )
    return Notice(replace(record, **fields), "mail", "send", 0, 1_700_000_009_000)


def hook(*residency: str) -> Webhook:
    return Webhook("https://h/", "whsec_x", residency)


def heard(notice: Notice, by: Webhook) -> dict[str, Any] | None:
    body = news.message(notice, by)
    return None if body is None else json.loads(body)


WHO_HEARS_WHAT = {
    "of a task without a fence, everybody the whole": ((), (), WHOLE),
    "of a task without a fence, a receiver in a group too": ((), ("us",), WHOLE),
    "of a fenced task, who may be anywhere, no word of a caller": (("eu",), (), BARE),
    "of a fenced task, who is inside, the whole": (("eu", "uk"), ("us", "eu"), WHOLE),
    "of a fenced task, who is outside, nothing": (("eu",), ("us",), None),
}


@pytest.mark.parametrize(
    ("fence", "residency", "keys"), WHO_HEARS_WHAT.values(), ids=WHO_HEARS_WHAT
)
def test_who_hears(
    fence: tuple[str, ...], residency: tuple[str, ...], keys: set[str] | None
) -> None:
    message = heard(a_notice(fence), hook(*residency))
    assert (None if message is None else set(message["data"])) == keys


def test_a_message_holds_ids_and_closed_values() -> None:
    assert heard(a_notice(), hook()) == {
        "type": "task.dead",
        "timestamp": "2023-11-14T22:13:20.123+00:00",
        "data": {
            "task_id": TASK_ID,
            "region": "eu-west",
            "queue": "mail",
            "name": "send",
            "kind": "exhausted",
            "attempts": 5,
            "crashes": 1,
            "hops": ["us-east", "eu-west"],
            "died_at": "2023-11-14T22:13:20.123+00:00",
            "tenant": "acme",
            "fingerprint": FINGERPRINT.hex(),
        },
    }


def test_of_what_cannot_be_read_the_rest_is_said() -> None:
    message = heard(a_notice(packed=b"\xff", hops=b"\xff", death="damaged"), hook())
    assert message is not None
    assert (
        message["data"].items()
        >= {
            "name": "send",
            "kind": "damaged",
            "hops": ["eu-west"],
            "tenant": "",
            "fingerprint": "",
        }.items()
    )


def test_a_message_keeps_its_id_until_the_task_dies_again() -> None:
    first = news.message_id(a_notice())
    assert first == news.message_id(replace(a_notice(), tries=9, now_ms=1))
    assert first != news.message_id(a_notice(token=78))
    assert "." not in first  # it is signed as id.timestamp.body


def test_the_task_that_tells_stands_beside_the_dead_one() -> None:
    told = news.task(a_notice(("eu",)), TELL, FLEET)
    place = ids.parse(told.task_id)
    assert (place.partition, place.region_code) == (3, ids.region_code("eu-west"))
    assert (told.queue, told.name, told.fence, told.max_crashes) == ("ops", "tell", ("eu",), 7)
    stored = codec.unpack(told.packed)
    assert (stored.announces, stored.traceparent) == (TASK_ID, "00-trace")
    assert (list(stored.fence), list(stored.spec.residency)) == (["eu"], ["eu"])
    assert (stored.spec.name, stored.spec.queue, stored.spec.tenant) == ("tell", "ops", "acme")
    arguments = json.loads(stored.spec.payload)
    assert set(arguments) == {"dead"}
    assert set(arguments["dead"]) == WHOLE
    assert len(stored.fingerprint) == 32
    assert stored.fingerprint != FINGERPRINT


def test_the_same_death_makes_the_same_task_and_another_one_another() -> None:
    first = news.task(a_notice(), TELL, FLEET)
    assert news.task(replace(a_notice(), tries=3), TELL, FLEET) == first
    assert news.task(a_notice(token=78), TELL, FLEET).task_id != first.task_id


def test_the_death_of_a_task_that_told_of_another_is_no_news() -> None:
    told = news.task(a_notice(), TELL, FLEET)
    assert news.is_news(a_notice())
    assert not news.is_news(a_notice(packed=told.packed))
