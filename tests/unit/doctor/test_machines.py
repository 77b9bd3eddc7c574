"""Servers at one host share the memory of its machine."""

import pytest

from tests.unit.doctor.test_examine import GIB, NEEDS, OK, WARNING, a_node, a_region
from tradewind.doctor import Finding, NodeFacts, examine, side_by_side

UNLIMITED, LARGE = {"maxmemory": "0"}, {"maxmemory": str(2 * GIB)}  # of 4 GiB
HALF, THIRD = ("CONFIG SET maxmemory 1536mb",), ("CONFIG SET maxmemory 1024mb",)
WHOLE = ("CONFIG SET maxmemory 3072mb",)
ROWS: dict[str, tuple[tuple[NodeFacts, ...], tuple[str, ...], list[tuple[str, ...]]]] = {
    "servers at one host": (
        (a_node(UNLIMITED, address="r:1"), a_node(UNLIMITED, address="r:2")),
        (),
        [HALF, HALF],
    ),
    "one that was not looked at": (
        (a_node(UNLIMITED, address="127.0.0.1:1"), a_node(UNLIMITED, address="localhost:2")),
        ("127.0.0.1:1", "[::1]:3"),
        [THIRD, THIRD],
    ),
    "machines of their own": (
        (a_node(UNLIMITED, address="r:1"), a_node(UNLIMITED, address="s:1")),
        (),
        [WHOLE, WHOLE],
    ),
    "limits that are too much together": (
        (a_node(LARGE, address="r:1"), a_node(LARGE, address="r:2")),
        (),
        [HALF, HALF],
    ),
    "a large one that leaves room beside a small one": (
        (a_node(LARGE, address="r:1"), a_node(address="r:2")),
        (),
        [(), ()],
    ),
}


@pytest.mark.parametrize(("nodes", "named", "mends"), ROWS.values(), ids=ROWS)
def test_a_machine_is_shared_evenly(
    nodes: tuple[NodeFacts, ...], named: tuple[str, ...], mends: list[tuple[str, ...]]
) -> None:
    regions = side_by_side([a_region(node) for node in nodes], named)
    found = [_memory(examine(region, NEEDS)) for region in regions]
    assert [each.mend for each in found] == mends
    assert [each.severity for each in found] == [WARNING if mend else OK for mend in mends]
    assert all("share" in each.advice for each in found if each.mend not in {(), WHOLE})


def _memory(findings: list[Finding]) -> Finding:
    (one,) = (each for each in findings if each.check == "memory")
    return one
