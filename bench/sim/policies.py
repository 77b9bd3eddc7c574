"""The product's way to choose, and those that it is compared with.

All but the oracle see what the product sees: its census, its filters, its scores. So only the
choice differs. `quota` policies may send only a given share of tasks away from home. The oracle of
these pays a price in seconds for it, the same all the time: `run` finds the one at which its share
is the given one. So it uses the quota where it gains most. `priced` has a price that follows the
share.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from bench.sim.model import Task
from bench.sim.node import Node
from bench.sim.site import Site
from tradewind.policy.decide import refusal
from tradewind.view import Candidate, Decision

PRICE_STEP_S = 0.004  # 250 tasks of a share 10 points too high raise the price by 0.1 s


class Policy(Protocol):
    """Chooses a region for a task at a router."""

    def decide(self, node: Node, task: Task) -> Decision:
        """Return the decision. Raises the product's refusal where nothing is left."""
        ...


class Product:
    """What a router does: `router.route.Routes`."""

    def decide(self, node: Node, task: Task) -> Decision:
        """Decide, and remember as a router does."""
        origin = task.origin
        routes = node.routes
        return routes.choose(
            origin.draft, origin.resolved, "", task.refused, explained=node.explains
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """What a rule of thumb may look at. `home` is None if it is not among the eligible."""

    eligible: list[Candidate]
    home: Candidate | None
    chance: random.Random


Pick = Callable[[Choice], Candidate]


class Simple:
    """A rule of thumb over the candidates that the product finds eligible."""

    def __init__(self, pick: Pick, *, minds_fences: bool = True) -> None:
        """Take `pick` among what is eligible; one that does not mind fences shows what they do."""
        self._pick, self._minds_fences = pick, minds_fences

    def decide(self, node: Node, task: Task) -> Decision:
        """Decide by the rule."""
        origin = task.origin
        decision = node.routes.decide(origin.draft, origin.resolved, "", task.refused)
        open_ = [
            each
            for each in decision.candidates
            if each.eligible or not (self._minds_fences or each.region in origin.permitted)
        ]
        if not open_:
            raise refusal(decision, node.fleet)
        home = next((each for each in open_ if each.region == origin.region), None)
        return _taking(decision, self._pick(Choice(open_, home, node.chance)).region)


def nearest(choice: Choice) -> Candidate:
    """Take the shortest round trip."""
    return choice.home or min(choice.eligible, key=lambda each: (each.rtt_ms, each.region))


def argmin(choice: Choice) -> Candidate:
    """Take the best score."""
    return min(choice.eligible, key=_score)


def p2c(choice: Choice) -> Candidate:
    """Take the better score of two at random."""
    return min(choice.chance.sample(choice.eligible, min(2, len(choice.eligible))), key=_score)


def at_random(choice: Choice) -> Candidate:
    """Take any."""
    return choice.chance.choice(choice.eligible)


@dataclass(slots=True)
class Quota:
    """How many tasks may leave home: a share of all, for all routers together."""

    share: float
    tasks: int = 0
    abroad: int = 0
    price_s: float = 0.0

    def allows(self) -> bool:
        """Whether one more may leave now."""
        return self.abroad + 1 <= self.share * (self.tasks + 1)

    def count(self, *, abroad: bool) -> None:
        """Take a decision in; the price follows the share."""
        self.tasks += 1
        self.abroad += abroad
        self.price_s = max(0.0, self.price_s + PRICE_STEP_S * (abroad - self.share))


def quota_p2c(quota: Quota) -> Pick:
    """Two at random, but home once the quota is used up."""

    def pick(choice: Choice) -> Candidate:
        taken = p2c(choice)
        if choice.home is not None and taken is not choice.home and not quota.allows():
            taken = choice.home
        quota.count(abroad=taken is not choice.home)
        return taken

    return pick


def priced_p2c(quota: Quota) -> Pick:
    """Home against one other at random, which must be better by the price."""

    def pick(choice: Choice) -> Candidate:
        home = choice.home
        others = [each for each in choice.eligible if each is not home]
        if home is None or not others:
            taken = p2c(choice)
        else:
            other = choice.chance.choice(others)
            taken = other if other.score_s + quota.price_s < home.score_s else home
        quota.count(abroad=taken is not home)
        return taken

    return pick


class Oracle:
    """Knows every true queue now, and what is on its way; takes the earliest start."""

    def __init__(self, sites: Mapping[str, Site], service_s: float, price_s: float = 0.0) -> None:
        """`service_s` is the mean; `price_s` what it costs to leave home."""
        self._sites, self._service_s, self._price_s = sites, service_s, price_s

    def decide(self, node: Node, task: Task) -> Decision:
        """Decide by the truth."""
        origin = task.origin
        best, best_s = "", float("inf")
        for name in origin.permitted:
            site = self._sites[name]
            if not site.condition.takes_work or name in task.refused or not site.slots:
                continue
            rtt_ms = node.fleet.rtt_ms.get((origin.region, name), 1.0) * site.condition.slow
            ahead = len(site.queue) + site.coming + 1 - site.free_slots
            start_s = rtt_ms / 2000 + max(0, ahead) * self._service_s / site.slots
            start_s += self._price_s if name != origin.region else 0.0
            if (start_s, name) < (best_s, best):
                best, best_s = name, start_s
        if not best:
            decision = node.routes.decide(origin.draft, origin.resolved, "", task.refused)
            raise refusal(decision, node.fleet)
        return Decision(best, "oracle", (), origin.resolved.fence)


def _score(candidate: Candidate) -> tuple[float, str]:
    return candidate.score_s, candidate.region


def _taking(decision: Decision, region: str) -> Decision:
    return Decision(region, "", decision.candidates, decision.fence)


_PICKS: Mapping[str, Callable[[Quota], Pick]] = {
    "nearest": lambda _: nearest,
    "argmin": lambda _: argmin,
    "p2c": lambda _: p2c,
    "random": lambda _: at_random,
    "p2c-quota": quota_p2c,
    "p2c-priced": priced_p2c,
}
CONSTRAINED = ("p2c-quota", "p2c-priced", "oracle-quota")
NAMES = ("product", *_PICKS, "p2c-blind", "oracle", "oracle-quota")


def build(
    name: str,
    sites: Mapping[str, Site],
    service_s: float,
    abroad: float = 0.0,
    price_s: float = 0.0,
) -> Policy:
    """Return a policy by its name.

    `abroad` is the share that constrained ones may send away; to the oracle it costs `price_s`.
    """
    if name in _PICKS:
        return Simple(_PICKS[name](Quota(abroad)))
    match name:
        case "product":
            return Product()
        case "p2c-blind":
            return Simple(p2c, minds_fences=False)
        case "oracle":
            return Oracle(sites, service_s)
        case "oracle-quota":
            return Oracle(sites, service_s, price_s)
        case _:
            raise ValueError(f"no policy {name}; there are {', '.join(NAMES)}")
