"""What CLUSTER SHARDS, CLUSTER SLOTS and redirections say of nodes, in every form they have."""

from typing import Any

import pytest

from tradewind.store.shards import Place, cluster_places, redirected, slot_places, uncovered

ASKED = "seed.example:7000"


def node(**facts: Any) -> list[Any]:
    said = {"id": b"1f", "port": 6379, "ip": b"10.0.0.1", "endpoint": b"10.0.0.1"}
    said |= {"role": b"master", "replication-offset": 1, "health": b"online"} | facts
    return [part for name, value in said.items() for part in (name.encode(), value)]


def shard(*nodes: list[Any], slots: tuple[int, ...] = (0, 16_383)) -> list[Any]:
    return [b"slots", list(slots), b"nodes", list(nodes)]


ADDRESSES: dict[str, tuple[dict[str, Any], bool, str]] = {
    "by its address": ({}, False, "10.0.0.1:6379"),
    "by the name that it announces": ({"endpoint": b"a.example"}, False, "a.example:6379"),
    "by its address, if it has no name to announce": ({"endpoint": b"?"}, False, "10.0.0.1:6379"),
    "where it was asked, if its endpoint is unknown": (
        {"endpoint": None},
        False,
        "seed.example:6379",
    ),
    "where it was asked, if it does not know itself": (
        {"endpoint": b"", "ip": b""},
        False,
        "seed.example:6379",
    ),
    "by its port for TLS": ({"tls-port": 6380}, True, "10.0.0.1:6380"),
    "by its plain port beside one for TLS": ({"tls-port": 6380}, False, "10.0.0.1:6379"),
    "by its only port": ({}, True, "10.0.0.1:6379"),
}


@pytest.mark.parametrize(("facts", "tls", "address"), ADDRESSES.values(), ids=ADDRESSES)
def test_a_node_is_called(facts: dict[str, Any], tls: bool, address: str) -> None:
    (place,) = cluster_places([shard(node(**facts))], asked=ASKED, tls=tls)
    assert place == Place(address, slots=((0, 16_383),))


def test_replicas_serve_nothing_and_emptied_primaries_are_left_out() -> None:
    places = cluster_places(
        [
            shard(node(), node(port=6380, role=b"replica"), slots=(0, 99, 200, 299)),
            shard(node(port=6381), slots=()),
        ],
        asked=ASKED,
    )
    assert places == [
        Place("10.0.0.1:6379", slots=((0, 99), (200, 299))),
        Place("10.0.0.1:6380", is_primary=False, slots=()),
    ]
    assert [places[0].holds(slot) for slot in (0, 99, 100, 250)] == [True, True, False, True]
    assert uncovered(places) == 16_384 - 200


@pytest.mark.parametrize("health", [b"fail", b"loading"])
def test_of_two_primaries_the_one_that_is_well_serves(health: bytes) -> None:
    old, new = cluster_places([shard(node(health=health), node(port=6380))], asked=ASKED)
    assert (old.slots, old.is_online) == ((), False)
    assert new == Place("10.0.0.1:6380", slots=((0, 16_383),))


def test_of_two_that_are_well_nobody_knows_which_one_serves() -> None:
    places = cluster_places([shard(node(), node(port=6380), node(role=b"replica"))], asked=ASKED)
    assert [place.is_sure for place in places] == [False, False, True]


def test_a_primary_that_is_not_well_and_alone_is_still_the_owner() -> None:
    (place,) = cluster_places([shard(node(health=b"fail"))], asked=ASKED)
    assert place.slots == ((0, 16_383),)


def test_slots_say_the_same_of_primaries() -> None:
    replies: list[Any] = [
        [0, 99, [b"10.0.0.1", 6379, b"1f", []], [b"10.0.0.2", 6379, b"2f", []]],
        [100, 199, [b"?", 6380, b"3f", [b"ip", b"10.0.0.3"]]],
        [200, 299, [b"10.0.0.1", 6379, b"1f", []]],
        [300, 399, [None, 6381, b"4f", []]],
    ]
    assert slot_places(replies, asked=ASKED) == [
        Place("10.0.0.1:6379", slots=((0, 99), (200, 299))),
        Place("10.0.0.3:6380", slots=((100, 199),)),
        Place("seed.example:6381", slots=((300, 399),)),
    ]


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ("3999 10.0.0.1:6381", "10.0.0.1:6381"),
        ("3999 a.example:6381", "a.example:6381"),
        ("3999 :6381", "seed.example:6381"),
        ("3999 ?:6381", "seed.example:6381"),
        ("3999 fe80::1:6381", "fe80::1:6381"),
    ],
)
def test_a_redirection_leads_to_a_node(words: str, address: str) -> None:
    assert redirected(words, asked=ASKED) == address
