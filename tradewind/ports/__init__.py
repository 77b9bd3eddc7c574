"""What each part needs of a region's store, one small interface per user.

Implementations: `store.RegionStore` on Redis and `testing.MemoryStore`. Every method may raise
StoreUnavailable, StoreMoving, StoreFull (writes that create) or IdentityMismatch; batched methods
answer item by item, in order, with an error in the place of an item that failed.
"""

from tradewind.ports.audit import Audits
from tradewind.ports.control import Register
from tradewind.ports.courier import Evacuations, ImportAnswer, Inbox, Outbox
from tradewind.ports.router import (
    Cancels,
    DeadLetters,
    Durables,
    Intake,
    Ledger,
    Reads,
    Vitals,
)
from tradewind.ports.worker import Claims, Notices, Repairs, Upkeep

__all__ = [
    "Audits",
    "Cancels",
    "Claims",
    "DeadLetters",
    "Durables",
    "Evacuations",
    "ImportAnswer",
    "Inbox",
    "Intake",
    "Ledger",
    "Notices",
    "Outbox",
    "Reads",
    "Register",
    "Repairs",
    "Upkeep",
    "Vitals",
]
