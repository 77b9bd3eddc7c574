"""A live worker, as a router reads it."""

from tradewind.task import Heartbeat, LiveWorker


def worker(name: str = "w", *, age_ms: int = 0, **changes: object) -> LiveWorker:
    """One of four slots, of which one is busy, but for `changes`; last heard of `age_ms` ago."""
    facts: dict[str, object] = {
        "worker_id": name,
        "region": "eu",
        "queues": ("default",),
        "handlers": ("a",),
        "slots": 4,
        "busy": 1,
        "rate": 2.0,
        "service_s": 0.5,
        "started_ms": 0,
        "version": "1",
    }
    return LiveWorker(Heartbeat(**(facts | changes)), age_ms)  # type: ignore[arg-type]
