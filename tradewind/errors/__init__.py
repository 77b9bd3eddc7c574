"""Every error that Tradewind raises, each with an answer to whether asking again can help.

Nobody parses messages: an error carries its facts as fields, and a stable `reason` that
travels to clients as google.rpc.ErrorInfo (domain `tradewind`). Codes are in `statuses.py`.
"""

from tradewind.errors.base import TradewindError
from tradewind.errors.orders import (
    ControlConflict,
    ControlUnavailable,
    LastRegion,
    NotServedYet,
    RegionTakesWork,
)
from tradewind.errors.reads import RegionSilent, UnknownTask
from tradewind.errors.setup import ConfigError, ConfigErrors, PolicyRefused, SetupError
from tradewind.errors.stores import (
    IdentityMismatch,
    StoreContractBroken,
    StoreError,
    StoreFull,
    StoreMoving,
    StoreUnavailable,
)
from tradewind.errors.submits import (
    BatchTooLarge,
    HomeUnreachable,
    IdempotencyKeyReused,
    InvalidTask,
    NoRegionPermitted,
    NoRegionReachable,
    OutcomeUnknown,
    PayloadTooLarge,
    RegionsFull,
    SubmitInFlight,
    Violation,
)
from tradewind.errors.waits import (
    NoAnswer,
    RouterUnreachable,
    TaskCancelled,
    TaskDead,
    TaskEnded,
    TaskExpired,
    WaitOver,
)

__all__ = [
    "BatchTooLarge",
    "ConfigError",
    "ConfigErrors",
    "ControlConflict",
    "ControlUnavailable",
    "HomeUnreachable",
    "IdempotencyKeyReused",
    "IdentityMismatch",
    "InvalidTask",
    "LastRegion",
    "NoAnswer",
    "NoRegionPermitted",
    "NoRegionReachable",
    "NotServedYet",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "PolicyRefused",
    "RegionSilent",
    "RegionTakesWork",
    "RegionsFull",
    "RouterUnreachable",
    "SetupError",
    "StoreContractBroken",
    "StoreError",
    "StoreFull",
    "StoreMoving",
    "StoreUnavailable",
    "SubmitInFlight",
    "TaskCancelled",
    "TaskDead",
    "TaskEnded",
    "TaskExpired",
    "TradewindError",
    "UnknownTask",
    "Violation",
    "WaitOver",
]
