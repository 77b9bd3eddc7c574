"""From the checked file to the values of `fleet.py`. Also gives the fleet its version."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any

from tradewind.fleet import (
    Affinity,
    Backoff,
    Dedup,
    FailoverPlan,
    Fleet,
    Health,
    Match,
    OnDead,
    QueueFailover,
    QueuePolicy,
    RedisTarget,
    Region,
    RegionLimits,
    Retention,
    Rule,
    Steering,
)
from tradewind.regions.schema import (
    FailoverSection,
    File,
    HealthSection,
    QueueSection,
    RegionSection,
    RuleSection,
    SteeringSection,
)


def fleet(
    file: File, redis: Mapping[str, RedisTarget], hooks: Mapping[str, OnDead | None]
) -> Fleet:
    """Build the fleet; `redis` has the target of every region, `hooks` who hears of each queue."""
    queues = {name: _queue(section, hooks[name]) for name, section in file.queues.items()}
    built = Fleet(
        regions={name: _region(name, part, redis[name]) for name, part in file.regions.items()},
        partitions=file.partitions,
        deployment=file.deployment,
        rtt_ms=_rtt(file.rtt),
        rules=tuple(_rule(section) for section in file.rules),
        default_queue=queues.get("default", QueuePolicy()),
        queues=queues,
        failover=_failover(file.failover),
        steering=_steering(file.steering),
        panic_mode=file.panic.mode,
        health=_health(file.health),
    )
    return replace(built, version=_version(built))


def _version(fleet: Fleet) -> str:
    content: dict[str, Any] = asdict(fleet)
    content["rtt_ms"] = sorted(fleet.rtt_ms.items())
    # A digest that everybody sees would let a secret be guessed.
    for region in content["regions"].values():
        del region["redis"]["password"]
    for queue in (content["default_queue"], *content["queues"].values()):
        hook: dict[str, Any] = queue["on_dead"] or {}
        hook.pop("secret", None)
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).hexdigest()[:12]


def _region(name: str, section: RegionSection, redis: RedisTarget) -> Region:
    limits = section.limits
    return Region(
        name=name,
        redis=redis,
        residency=tuple(section.residency),
        weight=section.weight,
        cost=section.cost,
        limits=RegionLimits(limits.max_backlog, limits.max_wait, limits.max_spill_in),
        new=section.new,
    )


def _rtt(rows: Mapping[str, Mapping[str, float]]) -> dict[tuple[str, str], float]:
    given = {(source, to): rtt for source, row in rows.items() for to, rtt in row.items()}
    return {(to, source): rtt for (source, to), rtt in given.items()} | given


def _rule(section: RuleSection) -> Rule:
    match, affinity = section.match, section.affinity
    return Rule(
        name=section.name,
        match=Match(
            names=tuple(match.names),
            queues=tuple(match.queues),
            tenants=tuple(match.tenants),
            labels=dict(match.labels),
        ),
        residency=tuple(section.residency),
        prefer=tuple(section.prefer),
        affinity=affinity and Affinity(affinity.key, affinity.mode),
    )


def _queue(section: QueueSection, on_dead: OnDead | None) -> QueuePolicy:
    backoff, dedup = section.backoff, section.dedup
    return QueuePolicy(
        attempts=section.attempts,
        backoff=Backoff(backoff.initial, backoff.factor, backoff.max),
        timeout_ms=section.timeout,
        lease_ms=section.lease,
        max_crashes=section.max_crashes,
        dedup=Dedup(dedup.by, dedup.scope, dedup.window, dedup.on_home_unreachable),
        durability=section.durability,
        starvation_after_ms=section.starvation_after,
        retention=Retention(section.retention.completed, section.retention.dead),
        failover=QueueFailover(tuple(section.failover.on), section.failover.max_hops),
        on_dead=on_dead,
    )


def _failover(section: FailoverSection) -> FailoverPlan:
    return FailoverPlan(
        order={source: tuple(order) for source, order in section.order.items()},
        unserved_after_ms=section.unserved_after,
        rescue_after_ms=section.rescue_after,
        dead_after_ms=section.dead_after,
    )


def _steering(section: SteeringSection) -> Steering:
    return Steering(
        band=section.band,
        band_min_ms=section.band_min,
        wait_weight=section.wait_weight,
        rtt_weight=section.rtt_weight,
        cost_weight_s=section.cost_weight / 1000,
    )


def _health(section: HealthSection) -> Health:
    return Health(
        interval_ms=section.interval,
        timeout_ms=section.timeout,
        down_after=section.down_after,
        up_after=section.up_after,
        stale_after_ms=section.stale_after,
    )
