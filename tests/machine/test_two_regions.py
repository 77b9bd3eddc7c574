"""Two real regions against a plain model: everything that may be done to a task, in any order.

Calls are repeated, replies lost, claims shown long after they were superseded; routers and
couriers stop half-way, connections and script caches are lost, time jumps.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.clock import build
from tests.machine.regions import TwoRegions
from tradewind.local.scratch import RedisProcess
from tradewind.store import scripts


@pytest.mark.timeout(1800)  # a failure is shrunk before it is shown
@pytest.mark.parametrize(
    ("runs", "steps", "at_least"),
    [(20, 30, 300), pytest.param(300, 50, 10_000, marks=pytest.mark.chaos)],
)
def test_two_regions_behave_as_the_model_does(
    redis_servers: list[RedisProcess],
    monkeypatch: pytest.MonkeyPatch,
    runs: int,
    steps: int,
    at_least: int,
) -> None:
    monkeypatch.setattr(scripts, "load", build())
    TwoRegions.servers, TwoRegions.steps = redis_servers, 0
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
