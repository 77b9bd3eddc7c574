"""Two real regions against a plain model: everything that may be done to a task, in any order.

Calls are repeated, replies lost, claims shown long after they were superseded; routers and
couriers stop half-way, connections and script caches are lost, time jumps.

Not on a Cluster: its scripts may not read the key, outside all slots, by which time stands still.
"""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import Kind, fleet_at, fleet_on
from tests.machine.clock import build
from tests.machine.regions import TwoRegions
from tradewind.local.scratch import RedisProcess, Watched
from tradewind.store import scripts


@pytest.mark.timeout(1800)  # a failure is shrunk before it is shown
@pytest.mark.parametrize(
    ("runs", "steps", "at_least"),
    [(20, 30, 300), pytest.param(300, 50, 10_000, marks=pytest.mark.long)],
)
@pytest.mark.parametrize(
    "kind", ["standalone", pytest.param("sentinel", marks=pytest.mark.every_form)]
)
def test_two_regions_behave_as_the_model_does(
    request: pytest.FixtureRequest,
    redis_servers: list[RedisProcess],
    monkeypatch: pytest.MonkeyPatch,
    kind: Kind,
    runs: int,
    steps: int,
    at_least: int,
) -> None:
    monkeypatch.setattr(scripts, "load", build())
    servers, fleet = redis_servers, fleet_on(redis_servers)
    if kind == "sentinel":
        watched: Watched = request.getfixturevalue("watched")
        sentinels: list[int] = request.getfixturevalue("sentinel_ports")
        servers = [watched.primary, *servers[1:]]
        first = fleet_at(kind, sentinels).regions["eu-west"]
        fleet = replace(fleet, regions={**fleet.regions, first.name: first})
    TwoRegions.servers, TwoRegions.fleet, TwoRegions.steps = servers, fleet, 0
    run_state_machine_as_test(
        TwoRegions,
        settings=settings(
            max_examples=runs,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
        ),
    )
    print(f"{TwoRegions.steps} steps")
    assert TwoRegions.steps >= at_least
