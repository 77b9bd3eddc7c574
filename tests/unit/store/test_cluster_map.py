"""What CLUSTER SLOTS, CLUSTER NODES and redirections say of nodes, in every form they have."""

from typing import Any

import pytest

from tradewind.store.cluster_map import Place, idle_places, redirected, slot_places, uncovered

ASKED = "seed.example:7000"


def node(host: bytes | None, port: int = 6379, *more: Any, node_id: bytes = b"1f") -> list[Any]:
    return [host, port, node_id, [part for pair in more for part in pair]]


ADDRESSES: dict[str, tuple[list[Any], str]] = {
    "by its address": (node(b"10.0.0.1"), "10.0.0.1:6379"),
    "by the name that it announces": (
        node(b"a.example", 6379, (b"ip", b"10.0.0.1")),
        "a.example:6379",
    ),
    "by its address, if it has no name to announce": (
        node(b"?", 6379, (b"ip", b"10.0.0.1")),
        "10.0.0.1:6379",
    ),
    "where it was asked, if its endpoint is unknown": (node(None), "seed.example:6379"),
    "where it was asked, if it does not know itself": (node(b""), "seed.example:6379"),
    "so, too, by a server that tells no more": (node(b"10.0.0.1")[:3], "10.0.0.1:6379"),
}


@pytest.mark.parametrize(("said", "address"), ADDRESSES.values(), ids=ADDRESSES)
def test_a_node_is_called(said: list[Any], address: str) -> None:
    (place,) = slot_places([[0, 16_383, said]], asked=ASKED)
    assert place == Place(address, slots=((0, 16_383),))


def test_ranges_of_a_primary_are_put_together_and_replicas_serve_nothing() -> None:
    places = slot_places(
        [
            [0, 99, node(b"10.0.0.1"), node(b"10.0.0.2")],
            [100, 199, node(b"10.0.0.3")],
            [200, 299, node(b"10.0.0.1"), node(b"10.0.0.2")],
        ],
        asked=ASKED,
    )
    assert places == [
        Place("10.0.0.1:6379", slots=((0, 99), (200, 299))),
        Place("10.0.0.3:6379", slots=((100, 199),)),
        Place("10.0.0.2:6379", is_primary=False, slots=()),
    ]
    assert [places[0].holds(slot) for slot in (0, 99, 100, 250)] == [True, True, False, True]
    assert uncovered(places) == 16_384 - 300


def test_nodes_that_serve_nothing_are_known_from_the_other_list() -> None:
    ranges = [[0, 16_383, node(b"h.example", 7000, node_id=b"a1")]]
    lines = (
        b"a1 10.0.0.1:7000@17000,h.example,shard-id=1 master,fail - 1 2 3 connected 0-16383",
        b"b2 10.0.0.2:7000@17000 slave,fail a1 1 2 3 disconnected",
        b"c3 10.0.0.3:7000@17000,,tls-port=7001 myself,slave a1 1 2 3 connected",
        b"d4 10.0.0.4:7000@17000 master,fail? - 1 2 3 connected",
        b"e5 :0@0 master,fail,noaddr - 1 2 3 disconnected",
        b"f6 :7006@17006 master,fail - 1 2 3 disconnected",
    )
    assert idle_places(b"\n".join(lines), ranges, asked=ASKED) == [
        Place("10.0.0.2:7000", is_primary=False, slots=()),
        Place("10.0.0.3:7000", is_primary=False, slots=()),
        Place("10.0.0.4:7000", slots=()),
        Place("seed.example:7006", slots=()),
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
