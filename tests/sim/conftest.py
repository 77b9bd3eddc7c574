"""Small worlds, fast enough to run in every test run."""

import pytest

from bench.sim import outages
from bench.sim.__main__ import quiet
from bench.sim.matrices import Matrix
from bench.sim.model import Settings
from bench.sim.scenarios import Scenario

_PAIRS = {("near", "far"): 60.0, ("far", "near"): 60.0}
_ABROAD = {(a, b): 120.0 for a in ("near", "far") for b in ("other",)}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    quiet()


@pytest.fixture
def matrix() -> Matrix:
    """Two regions of one residency group, and one of another."""
    rtt = _PAIRS | _ABROAD | {(b, a): ms for (a, b), ms in _ABROAD.items()}
    return Matrix("test", ("near", "far", "other"), rtt, dict.fromkeys(rtt, 1.0))


@pytest.fixture
def settings(matrix: Matrix) -> Settings:
    """A world whose first region has more callers than capacity."""
    return Settings(matrix, (60.0, 20.0, 20.0), fenced=0.2, slots=9, partitions=16)


@pytest.fixture
def calm(settings: Settings) -> Scenario:
    """A minute without any outage."""
    return Scenario("calm", settings, 0.7, 50.0, (), trace="poisson")


@pytest.fixture
def broken(settings: Settings, calm: Scenario) -> Scenario:
    """The last region fails hard for half a minute."""
    how = outages.Condition(reach="refuses")
    changes = (
        outages.Change(150.0, "other", how),
        outages.Change(180.0, "other", outages.GOOD),
    )
    script = outages.Script("hard-down", "", 150.0, 180.0, changes)
    return Scenario("hard-down", settings, 0.5, 330.0, (), trace="poisson", script=script)
