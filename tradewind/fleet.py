"""What regions.yaml says, as frozen values.

`regions.py` parses the file into these once; everything else reads them. Durations are
milliseconds, shares are fractions (30% is 0.30). Defaults are those of a file that says nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tradewind.limits import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

AffinityMode = Literal["required", "preferred"]
DedupBy = Literal["key", "payload", "none"]
DedupScope = Literal["region", "global"]
Durability = Literal["memory", "fsync", "replica"]
FailoverKind = Literal["exhausted", "timeout", "crashed", "rejected", "damaged"]


@dataclass(frozen=True, slots=True)
class Tls:
    """Files for TLS to Redis; empty means the system's trust store or no client certificate."""

    ca: str = ""
    cert: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class RedisTarget:
    """Where a region's Redis is. `nodes` are HOST:PORT; for `unix` the one node is a path."""

    kind: Literal["standalone", "cluster", "sentinel", "unix"]
    nodes: tuple[str, ...]
    service: str = ""  # sentinel only
    database: int = 0  # standalone only
    username: str = ""
    password: str = field(default="", repr=False)  # read from password_file or ${ENV}, never shown
    tls: Tls | None = None
    # Where to call a node instead, by its address, which stays its name: behind a proxy, say.
    through: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)


@dataclass(frozen=True, slots=True)
class RegionLimits:
    """When a region takes no more. `max_spill_in` is a share of its completion rate."""

    max_backlog: int = 100_000
    max_wait_ms: int = 30 * SECOND_MS
    max_spill_in: float = 0.30


@dataclass(frozen=True, slots=True)
class Region:
    """One region of the fleet. Weight 0: only explicit failover or pin.

    `new` or weight 0: it is joining or leaving, and keeps no ledger entry alone (decisions/0005).
    """

    name: str
    redis: RedisTarget
    residency: tuple[str, ...] = ()
    weight: int = 100
    cost: float = 0.0
    limits: RegionLimits = RegionLimits()
    new: bool = False

    @property
    def is_lasting(self) -> bool:
        """Whether every router may count on it for a dedup window: neither joining nor leaving."""
        return self.weight > 0 and not self.new


@dataclass(frozen=True, slots=True)
class Match:
    """Which tasks a rule is for: every given part must match. Names are globs (fnmatch)."""

    names: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])  # values are globs, too


@dataclass(frozen=True, slots=True)
class Affinity:
    """Keep equal keys in one region. `key`: affinity_key, tenant, or label:NAME."""

    key: str = "affinity_key"
    mode: AffinityMode = "preferred"


@dataclass(frozen=True, slots=True)
class Rule:
    """One routing rule; the first that matches wins."""

    name: str
    match: Match = Match()
    residency: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()
    affinity: Affinity | None = None


@dataclass(frozen=True, slots=True)
class Backoff:
    """Wait before a retry: initial * factor^(n-1), at most max (Celery's retry_backoff_max)."""

    initial_ms: int = 2 * SECOND_MS
    factor: float = 2.0
    max_ms: int = 10 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class Dedup:
    """What makes two submits the same task, where that holds, and for how long."""

    by: DedupBy = "key"
    scope: DedupScope = "global"
    window_ms: int = 24 * HOUR_MS
    on_home_unreachable: Literal["reject", "accept"] = "reject"


@dataclass(frozen=True, slots=True)
class Retention:
    """How long finished and dead tasks stay readable."""

    completed_ms: int = 24 * HOUR_MS
    dead_ms: int = 14 * DAY_MS


@dataclass(frozen=True, slots=True)
class QueueFailover:
    """Which deaths are moved to another region, and how often."""

    on: tuple[FailoverKind, ...] = ("exhausted", "timeout")
    max_hops: int = 1


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where to send word of a task that is dead for good, signed as Standard Webhooks says.

    `residency`: the groups that the receiver itself is in; empty: it may be anywhere.
    """

    url: str = field(repr=False)  # may carry a secret: never shown
    secret: str = field(repr=False)  # whsec_..., read from secret_file or ${ENV}, never shown
    residency: tuple[str, ...] = ()
    timeout_ms: int = 15 * SECOND_MS  # Standard Webhooks recommends 15 to 30 s


@dataclass(frozen=True, slots=True)
class DeadTaskHandler:
    """A task to submit for one that is dead for good, in its region and fence."""

    task: str
    queue: str = "default"


OnDead = Webhook | DeadTaskHandler


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """How tasks of one queue live. A task's own timeout and max_attempts win over these."""

    attempts: int = 5
    backoff: Backoff = Backoff()
    timeout_ms: int = 10 * MINUTE_MS
    lease_ms: int = 30 * SECOND_MS
    max_crashes: int = 3
    dedup: Dedup = Dedup()
    durability: Durability = "memory"
    starvation_after_ms: int = 60 * SECOND_MS
    retention: Retention = Retention()
    failover: QueueFailover = QueueFailover()
    on_dead: OnDead | None = None  # who hears of tasks that are dead for good


@dataclass(frozen=True, slots=True)
class FailoverPlan:
    """Where dead tasks may go next, by region, and how patient we are."""

    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    unserved_after_ms: int = 15 * SECOND_MS
    rescue_after_ms: int = 2 * MINUTE_MS
    dead_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Steering:
    """Weights of the score, and the band inside which a task stays home."""

    band: float = 0.20
    band_min_ms: int = 50
    wait_weight: float = 1.0
    rtt_weight: float = 1.0
    cost_weight_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Health:
    """How a router judges a region: docs/routing.md, How a region goes out and comes back."""

    interval_ms: int = 5 * SECOND_MS
    timeout_ms: int = 3 * SECOND_MS
    down_after: int = 3
    up_after: int = 3
    stale_after_ms: int = 10 * SECOND_MS


@dataclass(frozen=True, slots=True)
class Fleet:
    """The whole file. `version` names its contents: it is a digest, shown in every decision."""

    regions: Mapping[str, Region]
    partitions: int = 64
    deployment: str = "tradewind"
    rtt_ms: Mapping[tuple[str, str], float] = field(
        default_factory=dict[tuple[str, str], float],
    )  # directed; both directions are always present
    rules: tuple[Rule, ...] = ()
    default_queue: QueuePolicy = QueuePolicy()
    queues: Mapping[str, QueuePolicy] = field(default_factory=dict[str, QueuePolicy])
    failover: FailoverPlan = FailoverPlan()
    steering: Steering = Steering()
    panic_mode: Literal["best_effort", "reject"] = "best_effort"
    health: Health = Health()
    version: str = ""

    def queue(self, name: str) -> QueuePolicy:
        """Policy of queue `name`; a queue that the file does not name inherits `default`."""
        return self.queues.get(name, self.default_queue)

    @property
    def hooked(self) -> Mapping[str, bool]:
        """By queue, whether somebody hears of its dead tasks; "": queues that are not named.

        Empty if no queue has an on_dead.
        """
        by_queue = {"": self.default_queue, **self.queues}
        hooked = {name: policy.on_dead is not None for name, policy in by_queue.items()}
        return hooked if any(hooked.values()) else {}

    @property
    def durable(self) -> Mapping[str, Durability]:
        """By queue, what is more than memory; "": queues that are not named."""
        by_queue = {"": self.default_queue, **self.queues}
        return {
            name: policy.durability
            for name, policy in by_queue.items()
            if policy.durability != "memory"
        }

    @property
    def sends_webhooks(self) -> bool:
        """Whether some queue has a webhook."""
        policies = (self.default_queue, *self.queues.values())
        return any(isinstance(policy.on_dead, Webhook) for policy in policies)

    @property
    def groups(self) -> frozenset[str]:
        """Every residency group that some region belongs to."""
        return frozenset(group for region in self.regions.values() for group in region.residency)

    def inside(self, fence: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the regions inside `fence` (any of its groups); no fence permits all."""
        if not fence:
            return tuple(self.regions)
        return tuple(
            name
            for name, region in self.regions.items()
            if not set(fence).isdisjoint(region.residency)
        )
