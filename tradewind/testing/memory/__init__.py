"""One region's store in memory: what the scripts promise, as plain Python."""

from tradewind.testing.memory.store import MemoryStore

__all__ = ["MemoryStore"]
