"""The keys of regions.yaml (contract section 4), their types, bounds and defaults.

Defaults are those of `fleet.py`; bounds without a source only keep typing errors out.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

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
from tradewind.limits import MAX_ATTEMPTS
from tradewind.regions.units import Duration, Share

_LIMITS, _BACKOFF, _DEDUP, _RETENTION = RegionLimits(), Backoff(), Dedup(), Retention()
_MOVES, _QUEUE, _PLAN, _STEERING, _HEALTH = (
    QueueFailover(),
    QueuePolicy(),
    FailoverPlan(),
    Steering(),
    Health(),
)

_HOOK = Webhook("", "")

Short = Annotated[int, Duration("1ms", "1h")]
Long = Annotated[int, Duration("1ms", "365d")]
Patience = Annotated[int, Duration("0s", "30d")]  # 0s: at once
Factor = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Percent = Annotated[float, Share()]
Names = Annotated[list[str], Field(min_length=1)]
Globs = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class Section(BaseModel):
    """Base of every mapping in the file: only its own keys, only the right types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class TlsSection(Section):
    """Files for TLS to Redis."""

    ca: str = ""
    cert: str = ""
    key: str = ""


class RedisSection(Section):
    """One of `url`, `cluster` and `sentinel`; a plain text stands for `url`."""

    url: str = Field("", repr=False)
    cluster: list[str] = Field(default_factory=list[str], repr=False)
    sentinel: list[str] = Field(default_factory=list[str], repr=False)
    service: str = ""
    username: str = Field("", repr=False)
    password: str = Field("", repr=False)
    password_file: str = ""
    tls: TlsSection | None = None


def _long_form(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value


class LimitsSection(Section):
    """When a region takes no more."""

    max_backlog: Annotated[int, Field(ge=1, le=1_000_000_000)] = _LIMITS.max_backlog
    max_wait: Long = _LIMITS.max_wait_ms
    max_spill_in: Percent = _LIMITS.max_spill_in


class RegionSection(Section):
    """One region."""

    redis: Annotated[RedisSection, BeforeValidator(_long_form)]
    residency: Names = Field(default_factory=list[str])
    weight: Annotated[int, Field(ge=0, le=1000)] = 100  # routing.md section 3
    cost: Factor = 0.0
    limits: LimitsSection = LimitsSection()
    new: bool = False  # until every router has known it for a dedup window


class MatchSection(Section):
    """Which tasks a rule is for: every given part must match."""

    names: Globs = Field(default_factory=list[str])
    queues: Globs = Field(default_factory=list[str])
    tenants: Globs = Field(default_factory=list[str])
    labels: dict[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict[str, str])


class AffinitySection(Section):
    """Which value keeps a task near its like, and how firmly."""

    key: Annotated[str, Field(pattern=r"^(affinity_key|tenant|label:.+)$")] = Affinity().key
    mode: AffinityMode = Affinity().mode


class RuleSection(Section):
    """One routing rule."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]  # a metric label
    match: MatchSection = MatchSection()
    residency: Names = Field(default_factory=list[str])
    prefer: Names = Field(default_factory=list[str])
    affinity: AffinitySection | None = None


class BackoffSection(Section):
    """Wait before a retry."""

    initial: Long = _BACKOFF.initial_ms
    factor: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] = _BACKOFF.factor
    max: Long = _BACKOFF.max_ms


class DedupSection(Section):
    """What makes two submits the same task."""

    by: DedupBy = _DEDUP.by
    scope: DedupScope = _DEDUP.scope
    window: Annotated[int, Duration("1s", "30d")] = _DEDUP.window_ms
    on_home_unreachable: Literal["reject", "accept"] = _DEDUP.on_home_unreachable


class RetentionSection(Section):
    """How long ended tasks stay readable."""

    completed: Long = _RETENTION.completed_ms
    dead: Long = _RETENTION.dead_ms


class QueueFailoverSection(Section):
    """Which deaths are moved. An empty list moves none."""

    on: list[FailoverKind] = Field(default_factory=lambda: list(_MOVES.on))
    max_hops: Annotated[int, Field(ge=0, le=100)] = _MOVES.max_hops


class OnDeadSection(Section):
    """Who hears of a task that is dead for good: a webhook or a task; empty, nobody."""

    webhook: str = Field(default="", repr=False)
    secret: str = Field(default="", repr=False)
    secret_file: str = ""
    residency: Names = Field(default_factory=list[str])
    timeout: Annotated[int, Duration("1ms", "1m")] = _HOOK.timeout_ms
    task: str = ""
    queue: str = DeadTaskHandler("").queue


class QueueSection(Section):
    """One queue; what it does not say it takes from `default`, key by key, `on_dead` whole."""

    attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] = _QUEUE.attempts
    backoff: BackoffSection = BackoffSection()
    timeout: Annotated[int, Duration("1ms", "12h")] = _QUEUE.timeout_ms  # limits.MAX_TIMEOUT_MS
    lease: Annotated[int, Duration("1s", "1h")] = _QUEUE.lease_ms
    max_crashes: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] = _QUEUE.max_crashes
    dedup: DedupSection = DedupSection()
    durability: Durability = _QUEUE.durability
    starvation_after: Long = _QUEUE.starvation_after_ms
    retention: RetentionSection = RetentionSection()
    failover: QueueFailoverSection = QueueFailoverSection()
    on_dead: OnDeadSection = OnDeadSection()


class FailoverSection(Section):
    """Where dead tasks may go next."""

    order: dict[str, Names] = Field(default_factory=dict[str, list[str]])
    unserved_after: Patience = _PLAN.unserved_after_ms
    rescue_after: Patience = _PLAN.rescue_after_ms
    dead_after: Patience = _PLAN.dead_after_ms


class SteeringSection(Section):
    """Weights of the score and the band around home."""

    band: Percent = _STEERING.band
    band_min: Annotated[int, Duration("0ms", "1h")] = _STEERING.band_min_ms
    wait_weight: Factor = _STEERING.wait_weight
    rtt_weight: Factor = _STEERING.rtt_weight
    cost_weight: Annotated[float, Duration("0s", "1h", whole=False)] = (
        _STEERING.cost_weight_s * 1000
    )


class PanicSection(Section):
    """What to do when only doubtful regions are left."""

    mode: Literal["best_effort", "reject"] = "best_effort"


class HealthSection(Section):
    """How a router judges a region."""

    interval: Short = _HEALTH.interval_ms
    timeout: Short = _HEALTH.timeout_ms
    down_after: Annotated[int, Field(ge=1, le=1000)] = _HEALTH.down_after
    up_after: Annotated[int, Field(ge=1, le=1000)] = _HEALTH.up_after
    stale_after: Short = _HEALTH.stale_after_ms


class SecuritySection(Section):
    """Its keys are in the contract, not in this release: `checks` refuses them."""

    tls: Any = None
    tokens: Any = None
    roles: Any = None


class File(Section):
    """The whole file."""

    version: int
    deployment: str = "tradewind"
    partitions: int = 64
    regions: dict[str, RegionSection]
    rtt: dict[str, dict[str, Annotated[float, Duration("0ms", "1m", whole=False)]]] = Field(
        default_factory=dict[str, dict[str, float]]
    )
    rules: list[RuleSection] = Field(default_factory=list[RuleSection])
    queues: dict[str, QueueSection] = Field(default_factory=dict[str, QueueSection])
    failover: FailoverSection = FailoverSection()
    steering: SteeringSection = SteeringSection()
    panic: PanicSection = PanicSection()
    health: HealthSection = HealthSection()
    security: SecuritySection = SecuritySection()
