from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.rpc.running import Running, running
from tradewind.fleet import Fleet, Health


@pytest.fixture
async def serving(fleet: Fleet) -> AsyncIterator[Running]:
    """A router in eu-west over three empty regions."""
    async with running(replace(fleet, health=Health(interval_ms=100))) as router:
        yield router


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reservation is adopted after 50 ms instead of 10 s."""
    monkeypatch.setattr("tradewind.store.intake.RESERVATION_LEASE_MS", 50)
