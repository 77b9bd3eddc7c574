"""Test doubles: a client that runs an app's handlers itself, and a region's store in memory.

No router, no Redis, no sockets: see docs/testing.md.
"""

from tradewind.clock import ManualClock
from tradewind.testing.client import CannotRun, TestClient
from tradewind.testing.clock import TestClock
from tradewind.testing.memory import MemoryStore
from tradewind.testing.single import call, fake_context

__all__ = [
    "CannotRun",
    "ManualClock",
    "MemoryStore",
    "TestClient",
    "TestClock",
    "call",
    "fake_context",
]
