"""One policy in one scenario under one seed: from the settings to the figures."""

import gc
import math
import random
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from bench.sim import policies, traces
from bench.sim.progress import Progress
from bench.sim.scenarios import DRAIN_S, WARM_S, Scenario
from bench.sim.tally import BUCKET_S, Tally
from bench.sim.world import World

SAME_SHARE = 0.005  # shares abroad that differ by less count as equal: half a point
FIRST_PRICE_S, MAX_PRICES = 0.02, 8  # tried for it, by halves
_STEP_S = 1.0  # of simulated time, after which progress may be told


@dataclass(frozen=True, slots=True)
class Result:
    """Figures of one run. Times in seconds; What arrived and `submits` by buckets of BUCKET_S."""

    scenario: str
    policy: str
    seed: int
    tasks: int
    p50_s: float
    p95_s: float
    p99_s: float
    max_s: float
    home: float  # share of stored tasks
    outside_fence: int
    drained_hits: int
    success: float  # of submits whose caller had a permitted region that was up
    arrived: Mapping[str, list[int]]  # region -> tasks a bucket
    work_s: Mapping[str, list[float]]  # region -> seconds that these take a slot
    guests: float  # the most of a minute at any region: tasks from abroad, of its capacity
    submits: list[tuple[int, int]]  # submitted, succeeded
    changes: Mapping[str, Mapping[str, list[float]]]  # region -> router -> when, eligible or not
    delays_s: list[float]  # quantiles 0, 1, ... 100 %
    events: int
    cpu_s: float
    simulated: int = 0  # tasks that cpu_s was spent on: those of the warm-up, too

    @property
    def abroad(self) -> float:
        """Share of stored tasks that left home."""
        return 1 - self.home


def run(scenario: Scenario, policy: str, seed: int, abroad: float = 0.0) -> Result:
    """Run to the end; equal arguments give equal figures, but for `cpu_s`."""
    if policy == "oracle-quota":
        return _within(scenario, policy, seed, abroad)
    return _seeded(scenario, policy, seed, abroad, 0.0)


def _within(scenario: Scenario, policy: str, seed: int, abroad: float) -> Result:
    """Run at the price at which the share abroad is `abroad`, or at none if less leave anyway."""
    nearest = _seeded(scenario, policy, seed, abroad, 0.0)
    if nearest.abroad <= abroad:
        return nearest
    low_s, high_s, price_s = 0.0, math.inf, FIRST_PRICE_S
    for _ in range(MAX_PRICES):
        if abs(nearest.abroad - abroad) <= SAME_SHARE:
            break
        found = _seeded(scenario, policy, seed, abroad, price_s)
        if abs(found.abroad - abroad) < abs(nearest.abroad - abroad):
            nearest = found
        if found.abroad > abroad:
            low_s = price_s
        else:
            high_s = price_s
        price_s = 2 * price_s if high_s == math.inf else (low_s + high_s) / 2
    return nearest


def _seeded(scenario: Scenario, policy: str, seed: int, abroad: float, price_s: float) -> Result:
    state = random.getstate()
    random.seed(seed)  # the client's pauses draw from it
    try:
        with _uncollected():
            return _run(scenario, policy, seed, abroad, price_s)
    finally:
        random.setstate(state)


@contextmanager
def _uncollected() -> Generator[None]:
    """Keep Python from looking for cycles: nothing makes any, and it looks at the whole world."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _run(scenario: Scenario, policy: str, seed: int, abroad: float, price_s: float) -> Result:
    began_s = time.process_time()
    world = World(scenario.settings, seed, WARM_S)
    service_s = scenario.settings.service_s
    world.policy = policies.build(policy, world.sites, service_s, abroad, price_s)
    if scenario.script is not None:
        world.play(scenario.script)
    trace = traces.load(scenario.trace)
    arrivals = trace.arrivals(
        scenario.rate, scenario.settings.service_s, 3.0, random.Random(f"arrivals/{seed}")
    )
    world.feed(arrivals, scenario.length_s)
    tally, end_s = world.tally, scenario.length_s + DRAIN_S
    progress = Progress(f"{scenario.name}, {policy}, seed {seed}", end_s)
    for step in range(math.ceil(end_s / _STEP_S)):
        world.engine.run(min(end_s, (step + 1) * _STEP_S))
        progress.at(world.engine.now_s, tally.simulated)
    buckets = range(int(scenario.length_s / BUCKET_S))
    delays = sorted(tally.start_delays_s)
    changes: dict[str, dict[str, list[float]]] = {}
    for (router, region), times in tally.changes.items():
        changes.setdefault(region, {})[router] = times
    return Result(
        scenario=scenario.name,
        policy=policy,
        seed=seed,
        tasks=tally.submitted,
        p50_s=quantile(delays, 0.50),
        p95_s=quantile(delays, 0.95),
        p99_s=quantile(delays, 0.99),
        max_s=quantile(delays, 1.0),
        home=tally.at_home / max(1, tally.stored),
        outside_fence=tally.outside_fence,
        drained_hits=tally.drained_hits,
        success=tally.succeeded_with_place / max(1, tally.with_place),
        arrived={name: [tally.arrived[bucket][name] for bucket in buckets] for name in world.sites},
        work_s={name: [tally.work_s[bucket][name] for bucket in buckets] for name in world.sites},
        guests=_guests(scenario, tally),
        submits=[(tally.submits[bucket][0], tally.submits[bucket][1]) for bucket in buckets],
        changes=changes,
        delays_s=[quantile(delays, percent / 100) for percent in range(101)],
        events=world.engine.events,
        cpu_s=time.process_time() - began_s,
        simulated=tally.simulated,
    )


def _guests(scenario: Scenario, tally: Tally) -> float:
    per_minute = int(60 / BUCKET_S)
    last = int(scenario.length_s / BUCKET_S) - per_minute
    most = max(
        sum(tally.guests[bucket][name] for bucket in range(first, first + per_minute))
        for first in range(max(1, last))
        for name in scenario.settings.matrix.regions
    )
    return most / 60 / scenario.settings.capacity


def quantile(ordered: list[float], share: float) -> float:
    """Return the value below which `share` of the ordered values lie; 0 of none."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
