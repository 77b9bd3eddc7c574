import math
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradewind.policy import affinity
from tradewind.policy.affinity import fraction, rank, unweighted

# The regions and numbers of the measurement in the routing notes: weights 3:2:2:1:1.
REGIONS = (("us-east", 3.0), ("us-west", 2.0), ("eu-west", 2.0), ("eu-north", 1.0), ("ap", 1.0))
KEYS = [b"user-%d" % i for i in range(100_000)]


def homes(regions: Sequence[tuple[str, float]]) -> list[str]:
    return [rank(key, regions)[0] for key in KEYS]


def moved(before: list[str], after: list[str]) -> list[tuple[str, str]]:
    return [(old, new) for old, new in zip(before, after, strict=True) if old != new]


@pytest.fixture(scope="module")
def usual() -> list[str]:
    return homes(REGIONS)


def test_shares_follow_weights_within_three_tenths_of_a_point(usual: list[str]) -> None:
    counts = Counter(usual)
    for name, weight in REGIONS:
        assert counts[name] / len(KEYS) == pytest.approx(weight / 9, abs=0.003)


def test_a_removed_region_moves_its_own_keys_and_no_other(usual: list[str]) -> None:
    moves = moved(usual, homes([r for r in REGIONS if r[0] != "eu-west"]))
    assert {old for old, _ in moves} == {"eu-west"}
    assert len(moves) == usual.count("eu-west")
    assert len(moves) / len(KEYS) == pytest.approx(2 / 9, abs=0.003)


def test_the_keys_of_a_removed_region_go_to_their_second_choice(usual: list[str]) -> None:
    after = homes([r for r in REGIONS if r[0] != "eu-west"])
    for key, old, new in zip(KEYS[:2_000], usual, after, strict=False):
        if old == "eu-west":
            assert new == rank(key, REGIONS)[1]


def test_an_added_region_takes_its_share_and_nothing_else_moves(usual: list[str]) -> None:
    moves = moved(usual, homes([*REGIONS, ("sa", 2.0)]))
    assert {new for _, new in moves} == {"sa"}
    assert len(moves) / len(KEYS) == pytest.approx(2 / 11, abs=0.003)


def test_a_halved_weight_moves_keys_only_away_from_it(usual: list[str]) -> None:
    moves = moved(usual, homes([(n, w / 2 if n == "us-east" else w) for n, w in REGIONS]))
    assert {old for old, _ in moves} == {"us-east"}


def test_scaling_every_weight_moves_nothing(usual: list[str]) -> None:
    scaled = [(name, weight * 100) for name, weight in REGIONS]
    assert [rank(key, scaled)[0] for key in KEYS[:10_000]] == usual[:10_000]


def test_fractions_are_evenly_spread_and_not_those_of_another_name() -> None:
    eu, us = ([fraction(key, name) for key in KEYS[:10_000]] for name in ("eu", "us"))
    for tenth in range(10):
        share = sum(tenth / 10 <= value < (tenth + 1) / 10 for value in eu) / len(eu)
        assert share == pytest.approx(0.1, abs=0.01)
    both = sum(a < 0.5 and b < 0.5 for a, b in zip(eu, us, strict=True)) / len(eu)
    assert both == pytest.approx(0.25, abs=0.02)


ORDERS: dict[str, tuple[list[tuple[str, float]], tuple[str, ...]]] = {
    "weight 0 takes only explicit failover": ([("a", 1.0), ("b", 0.0)], ("a",)),
    "a negative weight counts as 0": ([("a", 1.0), ("b", -1.0)], ("a",)),
    "NaN is no weight": ([("a", 1.0), ("b", math.nan)], ("a",)),
    "no region, no order": ([], ()),
    "all at 0, no order": ([("a", 0.0)], ()),
}


@pytest.mark.parametrize(("regions", "expected"), ORDERS.values(), ids=ORDERS)
def test_what_is_left_out(regions: list[tuple[str, float]], expected: tuple[str, ...]) -> None:
    assert rank(b"key", regions) == expected


NAMES = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=8, unique=True)


@given(st.binary(), NAMES)
def test_the_order_in_the_file_does_not_matter(key: bytes, names: list[str]) -> None:
    regions = [(name, 1.0 + len(name)) for name in names]
    assert rank(key, regions[::-1]) == rank(key, regions)
    assert sorted(rank(key, regions)) == sorted(names)


@given(st.binary(), NAMES)
def test_unweighted_is_rank_with_equal_weights(key: bytes, names: list[str]) -> None:
    assert unweighted(key, names) == rank(key, [(name, 7.0) for name in names])


def test_a_key_and_a_name_never_run_into_each_other() -> None:
    names = ["b1", "b2", "b3", "b4", "b5"]
    longer_key = [unweighted(b"%da" % i, names) for i in range(20)]
    longer_names = [unweighted(b"%d" % i, [f"a{name}" for name in names]) for i in range(20)]
    assert longer_key != [tuple(name[1:] for name in order) for order in longer_names]


def test_orders_are_those_of_every_release_before() -> None:
    equal = unweighted(b"user-1", [name for name, _ in REGIONS])
    assert equal == ("eu-west", "ap", "us-west", "us-east", "eu-north")
    assert rank(b"user-1", REGIONS) == ("eu-west", "us-east", "us-west", "ap", "eu-north")


class _Highest:
    """A hash whose digest is all ones: u would round to 1, whose logarithm is 0."""

    def copy(self) -> "_Highest":
        return self

    def update(self, _data: bytes) -> None: ...

    def digest(self) -> bytes:
        return b"\xff" * 8


def test_the_highest_hash_divides_by_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    def highest(*_args: object, **_options: object) -> _Highest:
        return _Highest()

    monkeypatch.setattr(affinity, "blake2b", highest)
    assert rank(b"key", [("b", 1.0), ("a", 1.0)]) == ("a", "b")
