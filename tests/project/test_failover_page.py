"""docs/failover.md names tests that there are, and settings as they are."""

import re
from pathlib import Path

import pytest

from tradewind.fleet import FailoverPlan
from tradewind.limits import COURIER_LEASE_MS, MOVE_AGAIN_MS, WORKER_GONE_MS
from tradewind.task import DeathKind

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "failover.md").read_text()
TESTS = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)


@pytest.mark.parametrize(("file", "name"), TESTS, ids=[name for _, name in TESTS])
def test_every_test_that_the_page_names_is_there(file: str, name: str) -> None:
    text = (ROOT / "tests" / file).read_text()
    assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE)


def test_every_row_of_promises_names_a_test() -> None:
    table = PAGE.partition("## What is promised")[2].partition("## What is not")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert rows
    assert [row for row in rows if "::" not in row] == []


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    plan = FailoverPlan()
    assert f"`failover.rescue_after` ({plan.rescue_after_ms // 60_000} min)" in PAGE
    assert f"`failover.unserved_after` ({plan.unserved_after_ms // 1_000} s)" in PAGE
    assert f"at most once in {MOVE_AGAIN_MS // 60_000} minutes" in PAGE
    assert f"by a lease of {COURIER_LEASE_MS // 1_000} s" in PAGE
    assert f"has been heard of for {WORKER_GONE_MS // 1_000} s" in PAGE
    kinds = re.search(r"kind of death: (.+?) \|", PAGE)
    assert kinds is not None
    assert kinds[1].replace("`", "").split() == list(DeathKind.__args__)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)]+)\)", PAGE))))
def test_every_link_of_the_page_leads_somewhere(link: str) -> None:
    assert (ROOT / "docs" / link.partition("#")[0]).exists()
