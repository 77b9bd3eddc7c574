"""Callers, routers, regions and what happens between them.

A submit goes the way of router.submit: another region only after a definite refusal; where the
outcome is in doubt the same region again until the attempt's deadline; then the caller repeats.
"""

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from bench.sim.engine import Engine, SimulatedClock
from bench.sim.matrices import HOME_MS
from bench.sim.model import HANDLER, Origin, Settings, Task
from bench.sim.node import Lookout, Node
from bench.sim.outages import Change, Script
from bench.sim.policies import Policy
from bench.sim.site import Site
from bench.sim.tally import BUCKET_S, Tally
from bench.sim.whatif import Corrected
from tradewind.client.repeats import ATTEMPT_S, pause_s
from tradewind.errors import StoreUnavailable, TradewindError
from tradewind.policy.choose import TRIAL
from tradewind.policy.filters import OUTSIDE_FENCE
from tradewind.statuses import retry_after_ms
from tradewind.task import LiveWorker

SETTLE_S = 2.0  # within it routers have heard of a drain
_ONE = {HANDLER: 1}  # task that a call carries
_UNDER_WAY_S = 0.5  # a task that was sent just before may still arrive
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.05, 1.0  # between repeats at one region, as router.storing


class World:
    """Everything there is in one run."""

    def __init__(self, settings: Settings, seed: int, warm_s: float) -> None:
        """`warm_s`: what is submitted before does not count."""
        self.settings, self.fleet, self.engine = settings, settings.fleet(), Engine()
        self.chance = random.Random(f"world/{seed}")
        self.tally = Tally(warm_s)
        self.sites = {
            name: Site(name, settings, self.fleet, self.engine, self._started)
            for name in self.fleet.regions
        }
        self.nodes = {
            name: [
                Node(self._lookout(name), number, self.fleet, seed)
                for number in range(settings.routers)
            ]
            for name in self.fleet.regions
        }
        self.policy: Policy | None = None
        self._origins = list(settings.origins(self.fleet))
        self._reach = list(accumulate(origin.share for origin in self._origins))
        self._patience_s = 30.0
        for nodes in self.nodes.values():
            for node in nodes:
                for site in self.sites.values():
                    self.engine.at(self.chance.random(), self._probe, node, site, 2)
                    self.engine.at(self.chance.random(), self._muster, node, site)

    def _lookout(self, region: str) -> Lookout:
        clock, what_ifs = SimulatedClock(self.engine), self.settings.what_ifs
        if not what_ifs:
            return Lookout(self.fleet, region, clock)
        routers = self.settings.routers * len(self.fleet.regions)
        census = Corrected(self.fleet, region, clock, what_ifs, routers)
        census.sites = self.sites
        return census

    # --- what comes from outside

    def play(self, script: Script) -> None:
        """Plan the script's changes."""
        self._patience_s = script.patience_s
        for nodes in self.nodes.values():
            for node in nodes:
                node.explains = True  # changes are counted
        for change in script.changes:
            self.engine.at(change.at_s, self._change, change)

    def feed(self, arrivals: Iterator[tuple[float, float]], until_s: float) -> None:
        """Submit tasks as they come, (when, service time), until `until_s`."""
        when_s, service_s = next(arrivals)
        if when_s < until_s:
            self.engine.at(when_s, self._arrive, arrivals, until_s, service_s)

    def _arrive(
        self, arrivals: Iterator[tuple[float, float]], until_s: float, service_s: float
    ) -> None:
        draw = self.chance.random() * self._reach[-1]
        self.submit(self._origins[bisect_right(self._reach, draw)], service_s)
        self.feed(arrivals, until_s)

    def submit(self, origin: Origin, service_s: float) -> None:
        """A caller submits a task now."""
        now_s = self.engine.now_s
        self.tally.simulated += 1
        partition = self.chance.randrange(self.settings.partitions)
        task = Task(origin, now_s, service_s, partition, now_s + self._patience_s)
        task.had_place = any(self.sites[name].condition.takes_work for name in origin.permitted)
        if now_s >= self.tally.from_s:
            self.tally.submitted += 1
            self.tally.with_place += task.had_place
            self.tally.submits[int(now_s / BUCKET_S)][0] += 1
        self._ask(task)

    def _change(self, change: Change) -> None:
        self.sites[change.region].become(change.condition)
        for nodes in self.nodes.values():
            for node in nodes:
                told = node.census.drained.add if change.condition.drained else _remover(node)
                self.engine.after(self.chance.random() * SETTLE_S, told, change.region)

    # --- one submit

    def _ask(self, task: Task) -> None:
        """One attempt of the caller, at a router of its region."""
        nodes = self.nodes[task.origin.region]
        node = nodes[0] if len(nodes) == 1 else nodes[int(self.chance.random() * len(nodes))]
        task.refused = {}
        limit_s = min(task.until_s, self.engine.now_s + ATTEMPT_S)
        self._choose(node, task, limit_s)

    def _choose(self, node: Node, task: Task, limit_s: float) -> None:
        assert self.policy is not None  # noqa: S101 - set before anything runs
        try:
            decision = self.policy.decide(node, task)
        except TradewindError as error:
            self._later(task, retry_after_ms(error) / 1000)
            return
        if not task.refused and decision.reason != TRIAL:
            now_s, sees = self.engine.now_s, self.tally.sees
            for each in decision.candidates:
                if each.eligible:
                    sees(now_s, node.name, each.region, eligible=True)
                elif not each.excluded_by.startswith(OUTSIDE_FENCE):
                    sees(now_s, node.name, each.region, eligible=False)
        self._send(node, task, self.sites[decision.region], limit_s, _FIRST_PAUSE_S)

    def _send(self, node: Node, task: Task, site: Site, limit_s: float, wait_s: float) -> None:
        node.census.sent(site.name, _ONE)
        site.coming += 1
        there_s, back_s = self._ways(node.region, site)
        self.engine.after(there_s, self._reach_site, node, task, site, limit_s, wait_s, back_s)

    def _reach_site(
        self, node: Node, task: Task, site: Site, limit_s: float, wait_s: float, back_s: float
    ) -> None:
        site.coming -= 1
        how, call = site.condition, (node, task, site, limit_s, wait_s)
        if how.reach == "silent":
            self.engine.at(limit_s, self._in_doubt, *call)
            return
        draw = self.chance.random() if how.refused or how.lost else 1.0
        if how.reach == "refuses" or draw < how.refused:
            self.engine.after(back_s, self._refused, *call)
            return
        is_lost = draw < how.refused + how.lost
        if is_lost and self.chance.random() < 0.5:  # on the way there; else on the way back
            self.engine.after(back_s, self._in_doubt, *call)
            return
        is_new = not task.stored_in
        ready = site.store(task)
        if is_new:
            self._count_stored(task, site)
        if is_lost:
            self.engine.after(back_s, self._in_doubt, *call)
        else:
            self.engine.after(back_s, self._stored, node, task, site, ready, 2 * back_s)
            if "whole" in self.settings.what_ifs and isinstance(node.census, Corrected):
                load = (self.engine.now_s * 1000, len(site.queue), site.free_slots)
                self.engine.after(back_s, node.census.told, site.name, *load)

    def _stored(self, node: Node, task: Task, site: Site, ready: int, took_s: float) -> None:
        node.census.answered(site.name, _ONE, {task.partition: ready}, None, 1000 * took_s)
        self._succeed(task)

    def _refused(self, node: Node, task: Task, site: Site, limit_s: float, _wait_s: float) -> None:
        error = StoreUnavailable(site.name, "refused", sent=False)
        node.census.answered(site.name, _ONE, {}, error)
        if site.name in task.refused or self.engine.now_s >= limit_s:
            self._later(task, retry_after_ms(error) / 1000)
            return
        task.refused[site.name] = error
        self._choose(node, task, limit_s)

    def _in_doubt(self, node: Node, task: Task, site: Site, limit_s: float, wait_s: float) -> None:
        error = StoreUnavailable(site.name, "no answer", sent=True)
        node.census.answered(site.name, _ONE, {}, error)
        again_s = self.engine.now_s + wait_s
        if again_s < limit_s:
            longer_s = min(_MAX_PAUSE_S, 2 * wait_s)
            self.engine.at(again_s, self._send, node, task, site, limit_s, longer_s)
        else:
            self._later(task, retry_after_ms(error) / 1000)

    def _later(self, task: Task, after_s: float) -> None:
        """Let the caller repeat, if it has the patience. What was stored is found by its ledger."""
        wait_s = pause_s(task.attempt, after_s, self._patience_s)
        task.attempt += 1
        if task.stored_in:
            self._succeed(task)
        elif self.engine.now_s + wait_s < task.until_s:
            self.engine.after(wait_s, self._ask, task)

    def _succeed(self, task: Task) -> None:
        if task.is_answered or task.at_s < self.tally.from_s:
            return
        task.is_answered = True
        self.tally.succeeded += 1
        self.tally.succeeded_with_place += task.had_place
        self.tally.submits[int(task.at_s / BUCKET_S)][1] += 1

    def _count_stored(self, task: Task, site: Site) -> None:
        tally, now_s = self.tally, self.engine.now_s
        bucket = int(now_s / BUCKET_S)
        tally.arrived[bucket][site.name] += 1
        tally.work_s[bucket][site.name] += task.service_s
        is_home = site.name == task.origin.region
        tally.guests[bucket][site.name] += not is_home
        tally.outside_fence += site.name not in task.origin.permitted
        if task.at_s >= tally.from_s:
            tally.stored += 1
            tally.at_home += is_home
            told = now_s - site.drained_at_s > SETTLE_S + _UNDER_WAY_S
            tally.drained_hits += site.condition.drained and told

    def _started(self, task: Task, _site: Site) -> None:
        if task.at_s >= self.tally.from_s:
            self.tally.start_delays_s.append(self.engine.now_s - task.at_s)

    # --- what routers do by themselves

    def _probe(self, node: Node, site: Site, trips: int) -> None:
        """Probe; the first one connects, which takes a round trip more."""
        there_s, back_s = self._ways(node.region, site)
        how = site.condition
        took_s = there_s + back_s
        timeout_s = self.fleet.health.timeout_ms / 1000
        if how.reach == "silent" or trips * took_s > timeout_s:
            self.engine.after(timeout_s, self._probed, node, site, None)
        elif how.reach == "refuses" or self._fails(site):
            self.engine.after(took_s, self._probed, node, site, None)
        else:
            self.engine.after(trips * took_s, self._probed, node, site, took_s * 1000)

    def _probed(self, node: Node, site: Site, rtt_ms: float | None) -> None:
        node.census.probed(site.name, rtt_ms)
        pause = self.fleet.health.interval_ms / 1000
        self.engine.after(pause, self._probe, node, site, 2 if rtt_ms is None else 1)

    def _muster(self, node: Node, site: Site) -> None:
        there_s, back_s = self._ways(node.region, site)
        if site.condition.reach == "silent":
            self.engine.after(self.fleet.health.timeout_ms / 1000, self._mustered, node, site, None)
        else:
            self.engine.after(there_s, self._look, node, site, back_s)

    def _look(self, node: Node, site: Site, back_s: float) -> None:
        is_away = site.condition.reach != "ok" or self._fails(site)
        workers = None if is_away else site.heartbeats()
        self.engine.after(back_s, self._mustered, node, site, workers)

    def _mustered(self, node: Node, site: Site, workers: Sequence[LiveWorker] | None) -> None:
        if workers is None:
            node.census.note(site.name, StoreUnavailable(site.name, "no answer", sent=True))
        else:
            node.census.mustered(site.name, workers)
        self.engine.after(self.settings.report_s, self._muster, node, site)

    # --- the network

    def _fails(self, site: Site) -> bool:
        bad = site.condition.refused + site.condition.lost
        return bad > 0 and self.chance.random() < bad

    def _ways(self, region: str, site: Site) -> tuple[float, float]:
        """Draw the times there and back, in seconds."""
        pair = (region, site.name)
        rtt_ms = self.fleet.rtt_ms.get(pair, HOME_MS)
        spread_ms = self.settings.matrix.spread_ms.get(pair, 0.0)
        if spread_ms:
            rtt_ms += abs(self.chance.gauss(0.0, spread_ms))
        half_s = rtt_ms * site.condition.slow / 2000
        return half_s, half_s


def _remover(node: Node):  # noqa: ANN202
    return node.census.drained.discard
