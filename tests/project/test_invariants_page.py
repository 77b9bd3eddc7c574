"""docs/invariants.md names tests as proofs: each of them exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
FILE = re.compile(r"all of `([\w/]+\.py)`")


def test_every_test_that_the_page_names_exists() -> None:
    page = (ROOT / "docs" / "invariants.md").read_text()
    named = TEST.findall(page)
    assert len(named) > 50
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(
            rf"^(async )?def {name}\(", (ROOT / "tests" / path).read_text(), re.MULTILINE
        )
    ]
    missing += [path for path in FILE.findall(page) if not (ROOT / "tests" / path).is_file()]
    assert missing == []
