"""One handler called on its own: what becomes of its result."""

import math
from typing import Any

import pytest

from tradewind import App
from tradewind.handlers import ResultTooLarge
from tradewind.testing import call

app = App()


@app.task("report.build")
def build(kind: str) -> Any:
    results = {"object": object(), "nan": math.nan, "surrogate": "\ud800", "large": "x" * (1 << 19)}
    return {"it": results[kind]}


async def later(kind: str) -> Any:
    return build(kind)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("object", "TypeError: object has no form in JSON"),
        ("nan", "ValueError: Out of range"),
        ("surrogate", "UnicodeEncodeError: .*surrogates not allowed"),
    ],
)
async def test_a_result_that_cannot_be_stored_names_its_handler(kind: str, why: str) -> None:
    message = rf"the result cannot be stored as JSON \({why}.*\); return JSON values or bytes"
    with pytest.raises(TypeError, match=f"^handler report.build: {message}"):
        await call(app.handlers["report.build"], args={"kind": kind})
    for function in (build, later):
        with pytest.raises(TypeError, match=f"^handler {function.__name__}: {message}"):
            await call(function, args={"kind": kind})


async def test_a_result_that_is_too_large_says_so() -> None:
    with pytest.raises(ResultTooLarge, match="the limit is"):
        await call(build, args={"kind": "large"})
