"""The keys of regions.yaml, their types, bounds and defaults.

Defaults are those of `fleet.py`; bounds without a source only keep typing errors out. The text
under a key is what an editor shows for it (`json_schema.py`), and so are the extras: they say to an
editor what `checks.py` and its neighbours see to here.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.config import JsonDict

from tradewind.fleet import (
    Affinity,
    AffinityMode,
    Backoff,
    DeadTaskHandler,
    Dedup,
    DedupBy,
    DedupScope,
    Durability,
    FailoverKind,
    FailoverPlan,
    Health,
    QueueFailover,
    QueuePolicy,
    RegionLimits,
    Retention,
    Steering,
    Webhook,
)
from tradewind.limits import MAX_ATTEMPTS, MAX_NAME_BYTES, SUPPORTED_PARTITIONS
from tradewind.regions.kinds import (
    BY_LABEL,
    LABEL,
    UNIQUE,
    Factor,
    Globs,
    Long,
    Names,
    Patience,
    Percent,
    RoundTrip,
    Section,
    Short,
    forms,
)
from tradewind.regions.units import Duration

_LIMITS, _BACKOFF, _DEDUP, _RETENTION = RegionLimits(), Backoff(), Dedup(), Retention()
_MOVES, _QUEUE, _PLAN, _STEERING, _HEALTH = (
    QueueFailover(),
    QueuePolicy(),
    FailoverPlan(),
    Steering(),
    Health(),
)

_HOOK = Webhook("", "")


class TlsSection(Section):
    """Files for TLS to Redis; relative paths start from this file's directory."""

    ca: str = ""
    """Certificates to trust instead of the system's."""
    cert: str = ""
    """Client certificate; goes with `key`."""
    key: str = ""
    """Key of the client certificate."""


class RedisSection(Section):
    """Where a region's Redis is: one of `url`, `cluster` and `sentinel`; a text alone is `url`."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": forms({"url": (), "cluster": (), "sentinel": ("service",)}),
        }
    )

    url: str = Field("", repr=False)
    """redis://HOST:PORT, rediss://HOST:PORT, unix:///PATH, or ${NAME} of the environment."""
    cluster: list[str] = Field(default_factory=list[str], repr=False)
    """Some nodes of a Redis Cluster, each HOST:PORT."""
    sentinel: list[str] = Field(default_factory=list[str], repr=False)
    """Sentinels, each HOST:PORT."""
    service: str = ""
    """Name of the master that the sentinels watch."""
    username: str = Field("", repr=False)
    """ACL user; ${NAME} takes it from the environment."""
    password: str = Field("", repr=False)
    """Only as ${NAME} of the environment: a secret may not stand in the file."""
    password_file: str = ""
    """File that holds the password and nothing else."""
    tls: TlsSection | None = None
    """Encrypt, with these files."""


def _long_form(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value


class LimitsSection(Section):
    """When a region takes no more."""

    max_backlog: Annotated[int, Field(ge=1, le=1_000_000_000)] = _LIMITS.max_backlog
    """Ready tasks."""
    max_wait: Long = _LIMITS.max_wait_ms
    """Expected wait for a worker."""
    max_spill_in: Percent = _LIMITS.max_spill_in
    """Tasks that come from elsewhere, as a share of the region's completion rate."""


class RegionSection(Section):
    """One region."""

    redis: Annotated[
        RedisSection, BeforeValidator(_long_form, json_schema_input_type=str | RedisSection)
    ]
    """Its Redis: a URL, or a mapping for a cluster, for sentinels, for passwords and TLS."""
    residency: Names = Field(default_factory=list[str])
    """Groups that the region is in; a fence names groups."""
    weight: Annotated[int, Field(ge=0, le=1000)] = 100
    """Relative capacity, for affinity and ties. 0: only explicit failover, or on its way out."""
    cost: Factor = 0.0
    """Relative; counts only with `steering.cost_weight`."""
    limits: LimitsSection = LimitsSection()
    """When it takes no more."""
    new: bool = False  # until every router has known it for a dedup window
    """It is joining: leave this in for the longest dedup window, so that no repeat is missed."""


class MatchSection(Section):
    """Which tasks a rule is for: every given part must match; no part at all matches every task."""

    names: Globs = Field(default_factory=list[str])
    """Handler names, as globs such as gpu.*; any of them."""
    queues: Globs = Field(default_factory=list[str])
    """Queue names, as globs; any of them."""
    tenants: Globs = Field(default_factory=list[str])
    """Tenants, as globs; any of them."""
    labels: dict[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict[str, str])
    """Labels that the task must have, each with a glob for its value."""


class AffinitySection(Section):
    """Which value keeps a task near its like, and how firmly."""

    key: Annotated[str, Field(pattern=r"^(affinity_key|tenant|label:.+)$")] = Affinity().key
    """affinity_key, tenant or label:NAME."""
    mode: AffinityMode = Affinity().mode
    """required: the key's region or none. preferred: the next one while that is overloaded."""


class RuleSection(Section):
    """One routing rule."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]  # a metric label
    """What decisions, metrics and `tradewind explain` call it."""
    match: MatchSection = MatchSection()
    """Which tasks it is for."""
    residency: Names = Field(default_factory=list[str])
    """The fence: groups that its tasks may never leave, not in an outage either."""
    prefer: Names = Field(default_factory=list[str])
    """Regions in the order in which they are wished for; the others serve if none of them can."""
    affinity: AffinitySection | None = None
    """Keep tasks of one key in one region."""


class BackoffSection(Section):
    """Wait before a retry: initial * factor^(n-1), at most max."""

    initial: Long = _BACKOFF.initial_ms
    """Before the first retry."""
    factor: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] = _BACKOFF.factor
    """Growth from one retry to the next."""
    max: Long = _BACKOFF.max_ms
    """The longest."""


class DedupSection(Section):
    """What makes two submits the same task."""

    by: DedupBy = _DEDUP.by
    """key: the idempotency key. payload: that, else the payload. none: nothing."""
    scope: DedupScope = _DEDUP.scope
    """Across all permitted regions, or each region for itself."""
    window: Annotated[int, Duration("1s", "30d")] = _DEDUP.window_ms
    """How long a repeat is recognised."""
    on_home_unreachable: Literal["reject", "accept"] = _DEDUP.on_home_unreachable
    """When the region that would know a repeat is silent. accept: it may run twice."""


class RetentionSection(Section):
    """How long ended tasks stay readable."""

    completed: Long = _RETENTION.completed_ms
    """Completed, cancelled and expired ones."""
    dead: Long = _RETENTION.dead_ms
    """Dead-lettered ones."""


class QueueFailoverSection(Section):
    """Which deaths are moved. An empty list moves none."""

    on: Annotated[list[FailoverKind], Field(json_schema_extra=UNIQUE)] = Field(
        default_factory=lambda: list(_MOVES.on)
    )
    """Kinds of death that another region may try."""
    max_hops: Annotated[int, Field(ge=0, le=100)] = _MOVES.max_hops
    """Moves of one task for this reason."""


class OnDeadSection(Section):
    """Who hears of a task that is dead for good: a webhook or a task; empty, nobody."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"maxProperties": 0},
                *forms(
                    {
                        "webhook": ("secret", "secret_file", "residency", "timeout"),
                        "task": ("queue",),
                    }
                ),
            ],
        }
    )

    webhook: str = Field(default="", repr=False)
    """https://HOST/PATH; signed as Standard Webhooks says. ${NAME} is filled in."""
    secret: str = Field(default="", repr=False)
    """Only as ${NAME} of the environment: a secret may not stand in the file."""
    secret_file: str = ""
    """File with whsec_ and the base64 of 24 to 64 random bytes."""
    residency: Names = Field(default_factory=list[str])
    """Groups that the receiver itself is in: tasks fenced to others are not told of."""
    timeout: Annotated[int, Duration("1ms", "1m")] = _HOOK.timeout_ms
    """Of one delivery."""
    task: str = ""
    """Handler of the task that is submitted instead."""
    queue: str = DeadTaskHandler("").queue
    """Queue of that task."""


class QueueSection(Section):
    """One queue; what it does not say it takes from `default`, key by key, `on_dead` whole."""

    attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] = _QUEUE.attempts
    """Before a task is dead in a region."""
    backoff: BackoffSection = BackoffSection()
    """Wait before a retry."""
    timeout: Annotated[int, Duration("1ms", "12h")] = _QUEUE.timeout_ms  # limits.MAX_TIMEOUT_MS
    """Of one attempt."""
    lease: Annotated[int, Duration("1s", "1h")] = _QUEUE.lease_ms
    """A worker that dies is noticed after this long."""
    max_crashes: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] = _QUEUE.max_crashes
    """Workers that may die under one task before it is dead as crashed."""
    dedup: DedupSection = DedupSection()
    """What makes two submits the same task."""
    durability: Durability = _QUEUE.durability
    """Accepted once in memory, on disk (fsync), or on a replica of the region's Redis."""
    starvation_after: Long = _QUEUE.starvation_after_ms
    """A lower priority waits at most about this long behind higher ones."""
    retention: RetentionSection = RetentionSection()
    """How long ended tasks stay readable."""
    failover: QueueFailoverSection = QueueFailoverSection()
    """Which dead tasks another region may try."""
    on_dead: OnDeadSection = OnDeadSection()
    """Who hears of tasks that are dead for good."""


class FailoverSection(Section):
    """Where tasks may go that their region cannot run or finish."""

    order: Annotated[dict[str, Names], BY_LABEL] = Field(default_factory=dict[str, list[str]])
    """By region, who takes over from it, first to last; not listed: the nearest permitted."""
    unserved_after: Patience = _PLAN.unserved_after_ms
    """No live worker for so long: new tasks are routed around the region."""
    rescue_after: Patience = _PLAN.rescue_after_ms
    """No live worker for so long: what waits there is moved."""
    dead_after: Patience = _PLAN.dead_after_ms
    """Wait before a dead-lettered task is moved."""


class SteeringSection(Section):
    """Weights of the score and the band around home."""

    band: Percent = _STEERING.band
    """A task stays at home while that is worse than the best by no more than this share of it."""
    band_min: Annotated[int, Duration("0ms", "1h")] = _STEERING.band_min_ms
    """The band is at least this wide."""
    wait_weight: Factor = _STEERING.wait_weight
    """What a second of waiting for a worker counts."""
    rtt_weight: Factor = _STEERING.rtt_weight
    """What a second of round trip counts."""
    cost_weight: Annotated[float, Duration("0s", "1h", whole=False)] = (
        _STEERING.cost_weight_s * 1000
    )
    """How long one may wait to save a cost of 1."""


class PanicSection(Section):
    """What to do when only doubtful regions are left."""

    mode: Literal["best_effort", "reject"] = "best_effort"
    """best_effort: send to them, never across a fence. reject: refuse, to be tried later."""


class HealthSection(Section):
    """How a router judges a region."""

    interval: Short = _HEALTH.interval_ms
    """Between two probes."""
    timeout: Short = _HEALTH.timeout_ms
    """Of one probe."""
    down_after: Annotated[int, Field(ge=1, le=1000)] = _HEALTH.down_after
    """Failed probes in a row."""
    up_after: Annotated[int, Field(ge=1, le=1000)] = _HEALTH.up_after
    """Good probes in a row."""
    stale_after: Short = _HEALTH.stale_after_ms
    """A region that has not reported its load for so long counts as degraded."""


def _no_keys(schema: JsonDict) -> None:
    schema["properties"] = {}


class SecuritySection(Section):
    """No keys yet: without tokens and TLS only loopback is served."""

    # Its keys are kept for what is to come: `checks` refuses them.
    model_config = ConfigDict(json_schema_extra=_no_keys)

    tls: Any = None
    tokens: Any = None
    roles: Any = None


_QUEUE_NAMES = Field(
    json_schema_extra={
        "propertyNames": {"pattern": "^[A-Za-z0-9._:/-]+$", "maxLength": MAX_NAME_BYTES}
    }
)


class File(Section):
    """The regions of a Tradewind fleet, and where tasks go among them."""

    version: Annotated[int, Field(json_schema_extra={"const": 1})]
    """Of the format."""
    deployment: Annotated[str, Field(json_schema_extra=LABEL)] = "tradewind"
    """Name of the fleet; a Redis that belongs to another one is refused."""
    partitions: Annotated[int, Field(json_schema_extra={"enum": [*SUPPORTED_PARTITIONS]})] = 64
    """Hash-tag partitions in every region; fixed for the life of the data."""
    regions: Annotated[
        dict[str, RegionSection],
        Field(json_schema_extra={"propertyNames": LABEL, "minProperties": 1}),
    ]
    """By name; a name is part of every task id and is never reused for another place."""
    rtt: Annotated[dict[str, Annotated[dict[str, RoundTrip], BY_LABEL]], BY_LABEL] = Field(
        default_factory=dict[str, dict[str, float]]
    )
    """Round trips until they are measured; symmetric unless both directions are given."""
    rules: list[RuleSection] = Field(default_factory=list[RuleSection])
    """The first that matches wins, so fences go first."""
    queues: Annotated[dict[str, QueueSection], _QUEUE_NAMES] = Field(
        default_factory=dict[str, QueueSection]
    )
    """By name; `default` is what every queue inherits, also those that are not named."""
    failover: FailoverSection = FailoverSection()
    """Where tasks may go that their region cannot run or finish."""
    steering: SteeringSection = SteeringSection()
    """How waiting, distance and cost are weighed."""
    panic: PanicSection = PanicSection()
    """What to do when only doubtful regions are left."""
    health: HealthSection = HealthSection()
    """How a router judges a region."""
    security: SecuritySection = SecuritySection()
    """No keys yet: without tokens and TLS only loopback is served."""
