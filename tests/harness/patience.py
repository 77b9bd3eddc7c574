"""Waiting for what happens in other processes."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

PATIENCE_S = 45.0  # far above what anything takes; only a failing test uses it up
_EVERY_S = 0.02


async def until(
    holds: Callable[[], bool | Awaitable[bool]],
    what: str,
    *,
    patience_s: float = PATIENCE_S,
    seen: object = "",
) -> None:
    """Ask again and again until it holds. `what` completes "still not:" for whoever reads it.

    `seen` is what `holds` keeps of its last look, as `str` shows it in the end.
    """
    try:
        async with asyncio.timeout(patience_s):
            while not await _asked(holds):  # noqa: ASYNC110 - other processes set no event of ours
                await asyncio.sleep(_EVERY_S)
    except TimeoutError:
        shown = f": {seen}" if seen else ""
        raise AssertionError(f"after {patience_s:g} s still not: {what}{shown}") from None


async def _asked(holds: Callable[[], bool | Awaitable[bool]]) -> bool:
    answer = holds()
    return await answer if inspect.isawaitable(answer) else answer
