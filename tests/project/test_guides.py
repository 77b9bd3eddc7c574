"""The examples of the guides run as they stand."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


def examples(guide: str) -> dict[str, Any]:
    """Everything that the guide's examples define, one after the other."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / guide).read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile("\n".join(blocks), guide, "exec"), names)  # noqa: S102 - our own text
    return names


TESTS = {name: test for name, test in examples("testing.md").items() if name.startswith("test_")}


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
async def test_an_example_of_the_testing_guide(test: Any) -> None:
    assert inspect.iscoroutinefunction(test)
    await test()


def test_the_testing_guide_has_its_examples() -> None:
    assert len(TESTS) == 6


def test_the_examples_of_the_handlers_guide_load() -> None:
    assert {"tell", "count", "report"} <= examples("handlers.md").keys()
