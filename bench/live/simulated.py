"""The same plan in the simulator."""

import random

from bench.live.plan import WARM_S, Plan
from bench.live.seen import Record, Seen
from bench.sim import policies, traces
from bench.sim.model import Task
from bench.sim.scenarios import DRAIN_S
from bench.sim.site import Site
from bench.sim.world import World

TRACE = "conversation"
FIRST_S = 3.0  # the first task


class _Witnessed(World):
    """A world whose tasks are looked at one by one."""

    def __init__(self, plan: Plan, seed: int) -> None:
        super().__init__(plan.world, seed, WARM_S)
        self.seen: dict[Task, Seen] = {}
        self.policy = policies.build("product", self.sites, plan.world.service_s, 0.0)
        self.play(plan.script)

    def _ask(self, task: Task) -> None:
        if task not in self.seen:
            origin = task.origin
            self.seen[task] = Seen(task.at_s, origin.region, origin.permitted, task.had_place)
        super()._ask(task)

    def _count_stored(self, task: Task, site: Site) -> None:
        super()._count_stored(task, site)
        seen = self.seen[task]
        seen.stored_in, seen.stored_s = site.name, self.engine.now_s

    def _succeed(self, task: Task) -> None:
        super()._succeed(task)
        self.seen[task].answered_s = self.engine.now_s

    def _started(self, task: Task, _site: Site) -> None:
        super()._started(task, _site)
        seen = self.seen[task]
        seen.started_in, seen.started_s = (*seen.started_in, _site.name), self.engine.now_s


def simulate(plan: Plan, seed: int) -> Record:
    """Run it; equal seeds give equal records."""
    state = random.getstate()
    random.seed(seed)  # the client's pauses draw from it
    try:
        world = _Witnessed(plan, seed)
        chance = random.Random(f"arrivals/{seed}")
        arrivals = traces.load(TRACE).arrivals(plan.rate, plan.world.service_s, FIRST_S, chance)
        world.feed(arrivals, plan.length_s)
        world.engine.run(plan.length_s + DRAIN_S)
    finally:
        random.setstate(state)
    return Record(list(world.seen.values()), world.tally.changes)
