"""Outages in a small world against all that the simulator judges: what `make test` asks."""

import pytest

from bench.sim import outages
from bench.sim.judge import judge
from bench.sim.matrices import Matrix
from bench.sim.model import Settings
from bench.sim.run import Result, run
from bench.sim.scenarios import AFTER_S, BEFORE_S, Scenario

REGIONS = ("west", "east", "near", "far")  # two of each residency group: near makes a group
RTT_MS = {
    (one, other): 30.0 if i // 2 == j // 2 else 90.0 + 20.0 * abs(i - j)
    for i, one in enumerate(REGIONS)
    for j, other in enumerate(REGIONS)
    if i != j
}


def world(name: str, length_s: float, *, service_s: float) -> Scenario:
    """Four regions of two residency groups, a fifth of the tasks fenced, at half load."""
    settings = Settings(
        Matrix("small", REGIONS, RTT_MS, {}),
        (30.0, 25.0, 25.0, 20.0),
        fenced=0.2,
        slots=12,
        service_s=service_s,
        partitions=16,
    )
    script = outages.ordered(outages.SHAPES[name](REGIONS, BEFORE_S, length_s))
    ends_s = script.ends_s + (AFTER_S if name != "flapping" else 60.0)
    return Scenario(name, settings, 0.5, ends_s, (), trace="poisson", script=script)


# With what is missed: a region that flapped sits out its long time when the script ends.
OUTAGES: dict[str, tuple[Scenario, list[str]]] = {
    "one region is gone for a minute": (world("hard-down", 60.0, service_s=1.0), []),
    "one comes and goes until it is shut out": (
        world("flapping", 900.0, service_s=3.0),
        ["back to normal shares after recovery"],
    ),
}


@pytest.mark.parametrize(("outage", "misses"), OUTAGES.values(), ids=OUTAGES)
def test_every_target_holds_but_those_known_when(outage: Scenario, misses: list[str]) -> None:
    result: Result = run(outage, "product", 1)
    assert result.tasks > 1_000
    missed = [each.target for each in judge(outage, [result]) if not all(each.holds)]
    assert missed == misses
