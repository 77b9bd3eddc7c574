from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.flow.lab import Lab
from tradewind.local.scratch import RedisProcess

SHORT = "{lease: 1s, attempts: 3, backoff: {initial: 50ms, factor: 2, max: 200ms}, timeout: 60s}"


@pytest.fixture
async def make_lab(
    tmp_path: Path, redis_servers: list[RedisProcess]
) -> AsyncIterator[Callable[..., Lab]]:
    """Builds a lab on the session's servers, emptied."""
    labs: list[Lab] = []

    def make(queue: str = SHORT, regions: int = 1) -> Lab:
        labs.append(Lab(tmp_path, redis_servers[:regions], queue))
        return labs[-1]

    yield make
    for lab in labs:
        await lab.close()


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """One region, lease 1 s."""
    return make_lab()
