"""What a dead letter takes along that leaves as one: read at its source, told to its target."""

import json

from tradewind.task import Record, Resting


def read(fields: dict[str, bytes], now_ms: int) -> Resting:
    """Of a record on its way; `now_ms` when it was read."""
    until_ms, notice_ms = fields.get("du", b"0"), fields.get("hk")
    return Resting(
        left_ms=max(0, int(float(until_ms)) - now_ms),
        notice_ms=None if notice_ms is None else max(0, int(float(notice_ms)) - now_ms),
        notice_tries=int(fields.get("ht", b"0")),
    )


def text(record: Record, resting: Resting) -> str:
    """As lua/lib/rest.lua takes it."""
    given: dict[str, str | float] = {}
    if record.failure is not None:
        given = {
            "ek": record.failure.kind,
            "em": record.failure.message,
            "et": record.failure.traceback,
        }
    if record.progress or record.progress_note:
        given |= {"pf": record.progress, "pn": record.progress_note}
    if resting.notice_tries:
        given["ht"] = resting.notice_tries
    told = {
        "kind": record.death,
        "why": record.failover,
        "began_ms": record.started_ms,
        "died_ms": record.finished_ms,
        "left_ms": resting.left_ms,
        "fields": [str(part) for pair in given.items() for part in pair],
    }
    if resting.notice_ms is not None:
        told["notice_ms"] = resting.notice_ms
    return json.dumps(told)
