"""Records of what operators did, and of what was done by their orders: who, when, why, how many.

Frozen values and their form in Redis. Every region keeps the last MAX_RECORDS of what was done to
it; of orders that concern all regions, the one whose router was asked. A record names no task's
payload, result or error: of what an operator searched error texts for it only says that there was
something.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

#: What there are records of. state, pause, resume, evacuate: orders. moved: what couriers carried
#: away, added up over some seconds. redrive, purge, retarget: done to dead or moving tasks.
DEEDS: Final = ("state", "pause", "resume", "evacuate", "moved", "redrive", "purge", "retarget")
DAMAGED: Final = "damaged"  # a record that cannot be read
#: Kept in a region: some weeks of a busy operator, 3 MB. Own choice.
MAX_RECORDS: Final = 10_000
MAX_TEXT: Final = 500  # characters of each text
MAX_COUNTS: Final = 100  # names that a record counts
_MOST: Final = (1 << 63) - 1  # of a count: what the messages carry
_LAST_MS: Final = 253_402_300_799_999  # the end of 9999, as of protobuf timestamps


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One deed. `at_ms` and `place` are the region's, once it is kept there."""

    deed: str  # one of DEEDS; a newer version may know others
    who: str  # as they call themselves, and where they called from; of couriers their worker's id
    on: str = ""  # the region, queue or task that it was done to
    why: str = ""
    counts: Mapping[str, int] = field(default_factory=dict[str, int])  # of tasks, by what
    told: Mapping[str, str] = field(default_factory=dict[str, str])  # what else was asked for
    region: str = ""  # where it is kept
    place: str = ""  # among the records of that region: later ones have greater ones
    at_ms: int = 0  # by the region's clock


def encode(record: AuditRecord) -> bytes:
    """What is kept of it, as JSON; long texts are cut."""
    written = {
        "deed": _text(record.deed),
        "who": _text(record.who),
        "on": _text(record.on),
        "why": _text(record.why),
        "counts": {_text(n): count for n, count in list(record.counts.items())[:MAX_COUNTS]},
        "told": {_text(name): _text(text) for name, text in record.told.items()},
    }
    return json.dumps(written, ensure_ascii=False, separators=(",", ":")).encode()


def decode(data: bytes, *, region: str, place: str) -> AuditRecord:
    """Read a record that was kept at `place`; its deed is DAMAGED if it cannot be read."""
    try:
        found = cast("dict[str, Any]", json.loads(data))
        record = AuditRecord(
            deed=_text(found["deed"]),
            who=_text(found["who"]),
            on=_text(found.get("on", "")),
            why=_text(found.get("why", "")),
            counts={_text(name): _count(n) for name, n in found.get("counts", {}).items()},
            told={_text(name): _text(text) for name, text in found.get("told", {}).items()},
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        record = AuditRecord(DAMAGED, who="")
    at_ms = min(int(place.partition("-")[0]), _LAST_MS)  # as a stream's ids begin
    return replace(record, region=region, place=place, at_ms=at_ms)


def _text(value: object) -> str:
    """The value as a text that can be written down and sent; a long one is cut."""
    return str(value)[:MAX_TEXT].encode(errors="replace").decode()


def _count(value: Any) -> int:
    return min(max(0, int(value)), _MOST)
