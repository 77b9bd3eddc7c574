"""The page of durability says what the code does."""

import re
from pathlib import Path
from typing import Any, get_args

from router.durable import CONFIRM_S
from router.fitness import LOOK_S
from tradewind.fleet import Durability
from tradewind.limits import SECOND_MS
from tradewind.policy import filters
from tradewind.store import seals

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "durability.md").read_text(encoding="utf-8")
WORDS = {2: "two", 8: "eight"}


def test_each_durability_has_a_row() -> None:
    rows = re.findall(r"^\| `(\w+)` \| the primary|^\| `(\w+)` \| .*\(`WAIT", PAGE, re.MULTILINE)
    assert {one or other for one, other in rows} == set(get_args(Durability))


def test_the_page_has_the_numbers_of_the_code() -> None:
    waiting: Any = seals
    assert f"{WORDS[waiting._WAIT_MS // SECOND_MS]} seconds for a disk or a replica" in PAGE
    assert f"{CONFIRM_S:g} s in all" in PAGE
    assert f"every {LOOK_S:g} s how it is run" in PAGE
    assert f"up to {WORDS[waiting._AT_ONCE]} a node" in PAGE
    assert f"`tradewind explain` says `{filters.DURABILITY}`" in PAGE
    limits = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    assert f"waits up to {CONFIRM_S:g} s for a disk or a replica" in limits


def test_each_page_that_it_names_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / target).is_file(), target


def test_each_test_that_it_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 10
    for path, name in named:
        source = (ROOT / "tests" / path).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), f"{path}::{name}"
