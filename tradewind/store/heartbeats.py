"""Heartbeats as they lie in a store: JSON, read by routers and couriers of other releases, too.

Whoever can write to the store can write anything there. What routing reads is therefore within
bounds, and one report that cannot be read hides none of the others.
"""

import dataclasses
import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from tradewind.crew import bounded, lately_of, seconds_of
from tradewind.limits import (
    HOUR_MS,
    MAX_NAME_BYTES,
    MAX_TIMINGS,
    MIB,
    SECOND_MS,
    SUPPORTED_PARTITIONS,
    WORKER_GONE_MS,
)
from tradewind.task import Heartbeat, LiveWorker, Timing

_log = logging.getLogger(__name__)
MAX_REPORT_BYTES: Final = 1 * MIB  # one with 256 partitions and 32 timings has some 10 KiB
MAX_SLOTS: Final = 100_000  # ten times what a worker can be given
_MAX_LIST: Final = 10_000  # queues or handlers; routers tell 4,096 pairs of them apart
_MAX_PARTITION: Final = max(SUPPORTED_PARTITIONS) - 1
_MAX_READY: Final = 10**9  # of a partition; own choice
_MAX_MS: Final = 253_402_300_799_999  # the end of the year 9999: protobuf's last Timestamp
_MAX_EPOCH: Final = 2**53  # the largest whole number that Lua tells from the next
_TOLD_AGAIN_S: Final = HOUR_MS / SECOND_MS
_MAX_TOLD: Final = 64  # workers of which the log tells in _TOLD_AGAIN_S; own choice


class UnreadableHeartbeat(ValueError):
    """It says what no worker would; the text names the field, and not what it holds."""


def packed(beat: Heartbeat) -> str:
    """Return the report that `unpacked` reads."""
    report = dataclasses.asdict(beat)
    report["depths"] = [[p, depth, at_ms] for p, (depth, at_ms) in beat.depths.items()]
    return json.dumps(report, separators=(",", ":"))


def unpacked(packed: bytes) -> Heartbeat:
    """Read a report of this release, of an older one, or of a newer one, which may say more.

    Raises UnreadableHeartbeat. All numbers are finite, and within what a worker can do.
    """
    if len(packed) > MAX_REPORT_BYTES:
        raise UnreadableHeartbeat("too long")
    try:
        said: object = json.loads(packed)
    except (ValueError, RecursionError):
        raise UnreadableHeartbeat("no JSON") from None
    if not isinstance(said, dict):
        raise UnreadableHeartbeat("no object")
    report = cast("dict[str, Any]", said)
    return Heartbeat(
        worker_id=_text(report, "worker_id"),
        region=_text(report, "region"),
        queues=_names(report, "queues"),
        handlers=_names(report, "handlers"),
        slots=_whole(report, "slots", MAX_SLOTS),
        busy=_whole(report, "busy", MAX_SLOTS),
        rate=bounded(_number(report, "rate")),
        service_s=seconds_of(_number(report, "service_s")),
        started_ms=_whole(report, "started_ms", _MAX_MS),
        version=_text(report, "version"),
        depths=_depths(report),
        control=_whole(report, "control", _MAX_EPOCH) if "control" in report else 0,
        timings=_timings(report.get("timings")),
    )


class Roll:
    """Reads the heartbeats of one region. What it cannot read is left out, and logged at times."""

    def __init__(self, region: str, now_s: Callable[[], float] = time.monotonic) -> None:
        """`now_s`: a clock that never goes back, for the log."""
        self._region, self._now_s = region, now_s
        self._told_s: dict[bytes, float] = {}  # when the log told of a worker; at most _MAX_TOLD

    def read(self, entries: Iterable[tuple[bytes, bytes]], now_ms: int) -> list[LiveWorker]:
        """Return those heard of in the last WORKER_GONE_MS before the server's `now_ms`.

        `entries`: worker ids, and what lies under each: "at_ms report".
        A clock that stepped back leaves stamps that are still to come. They count as of now, if
        they are no further away than that: else the worker may have been gone for long.
        """
        found: list[LiveWorker] = []
        for worker_id, entry in entries:
            stamp, _, report = entry.partition(b" ")
            try:
                age_ms = now_ms - int(stamp)
                if abs(age_ms) < WORKER_GONE_MS:
                    found.append(LiveWorker(unpacked(report), max(0, age_ms)))
            except ValueError as error:
                is_ours = isinstance(error, UnreadableHeartbeat)
                self._tell(worker_id, str(error) if is_ours else "no time")
        return found

    def _tell(self, worker_id: bytes, reason: str) -> None:
        now_s, told_s = self._now_s(), self._told_s
        if worker_id in told_s and now_s - told_s[worker_id] < _TOLD_AGAIN_S:
            return
        if len(told_s) >= _MAX_TOLD:
            told_s = {each: at_s for each, at_s in told_s.items() if now_s - at_s < _TOLD_AGAIN_S}
            self._told_s = told_s
        if len(told_s) < _MAX_TOLD:
            told_s[worker_id] = now_s
            name = worker_id[:MAX_NAME_BYTES].decode(errors="replace")
            extra = {"of": self._region, "worker": name, "reason": reason}
            _log.warning("a heartbeat cannot be read: its worker does not count", extra=extra)


def _text(report: Mapping[str, Any], field: str) -> str:
    (text,) = _checked([report.get(field)], field)
    return text


def _names(report: Mapping[str, Any], field: str) -> tuple[str, ...]:
    names = report.get(field)
    if not isinstance(names, list) or len(cast("list[Any]", names)) > _MAX_LIST:
        raise UnreadableHeartbeat(field)
    return _checked(cast("list[Any]", names), field)


def _checked(texts: list[Any], field: str) -> tuple[str, ...]:
    """Texts that UTF-8 can spell, all at once: there may be hundreds, each second."""
    try:
        "".join(texts).encode()
    except (TypeError, UnicodeEncodeError):
        raise UnreadableHeartbeat(field) from None
    if max(map(len, texts), default=0) > MAX_NAME_BYTES:
        raise UnreadableHeartbeat(field)
    return tuple(texts)


def _whole(report: Mapping[str, Any], field: str, most: int) -> int:
    number = report.get(field)
    if type(number) is not int or not 0 <= number <= most:
        raise UnreadableHeartbeat(field)
    return number


def _number(report: Mapping[str, Any], field: str) -> float:
    number = report.get(field)
    if type(number) not in (int, float) or not 0 <= cast("float", number) < math.inf:
        raise UnreadableHeartbeat(field)
    return cast("float", number)


def _depths(report: Mapping[str, Any]) -> dict[int, tuple[int, int]]:
    """All at once, as names are: there is one of each partition."""
    said = report.get("depths")
    if said == []:
        return {}
    try:
        partitions, ready, looked_ms = cast("Any", zip(*cast("Any", said), strict=True))
    except (TypeError, ValueError):
        raise UnreadableHeartbeat("depths") from None
    for numbers, most in ((partitions, _MAX_PARTITION), (ready, _MAX_READY), (looked_ms, _MAX_MS)):
        if set(map(type, numbers)) != {int} or min(numbers) < 0 or max(numbers) > most:
            raise UnreadableHeartbeat("depths")
    return dict(zip(partitions, zip(ready, looked_ms, strict=True), strict=True))


def _timings(said: object) -> dict[str, Timing]:
    """Read what makes sense, MAX_TIMINGS names at most."""
    found: dict[str, Timing] = {}
    if not isinstance(said, dict):
        return found
    for name, timing in cast("dict[str, Any]", said).items():
        match timing:
            case [float() | int() as mean_s, float() | int() as lately] if (
                0 <= mean_s < math.inf and 0 <= lately < math.inf and _is_name(name)
            ):
                found[name] = Timing(seconds_of(mean_s), lately_of(lately))
            case _:
                continue
        if len(found) == MAX_TIMINGS:
            break
    return found


def _is_name(text: str) -> bool:
    try:
        return 0 < len(text.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False
