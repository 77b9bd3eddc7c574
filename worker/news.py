"""What is said of a task that is dead for good, and to whom. Pure.

A webhook is a receiver outside: it never hears a payload, a result or an error text. What callers
wrote into a fenced task, or what could be guessed from a digest of it, stays inside the fence.
"""

import json
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

from tradewind import codec, ids
from tradewind.fingerprint import fingerprint_of
from tradewind.fleet import DeadTaskHandler, Fleet, Webhook
from tradewind.task import Draft, NewTask, Notice, Priority
from tradewind.v1.record_pb2 import StoredSpec
from tradewind.v1.task_pb2 import PRIORITY_NORMAL, TaskSpec

_JSON: Final = "application/json"
_TYPE: Final = "task.dead"  # of the message: Standard Webhooks wants a type, full-stop delimited


def spec_of(notice: Notice) -> StoredSpec | None:
    """The dead task as it was admitted; None if that cannot be read."""
    try:
        return codec.unpack(notice.record.packed)
    except codec.DamagedRecord:
        return None


def is_news(notice: Notice) -> bool:
    """Whether anybody is to hear of it: not of the death of a task that told of another's."""
    stored = spec_of(notice)
    return stored is None or not stored.announces


def message_id(notice: Notice) -> str:
    """The same for every try, and another one if the task is redriven and dies again."""
    return f"msg_{notice.record.task_id}_{notice.record.token}"


def about(notice: Notice, *, whole: bool = True) -> dict[str, Any]:
    """Ids and closed values. `whole`: what is for those inside the fence, too."""
    record, stored = notice.record, spec_of(notice)
    facts: dict[str, Any] = {
        "task_id": record.task_id,
        "region": record.region,
        "queue": notice.queue,
        "name": notice.name,
        "kind": record.death,
        "attempts": record.attempts,
        "crashes": record.crashes,
        "hops": [*_earlier_regions(record.hops), record.region],
        "died_at": _instant(record.finished_ms),
    }
    if whole:
        facts["tenant"] = stored.spec.tenant if stored else ""
        facts["fingerprint"] = _fingerprint(stored)
    return facts


def _fingerprint(stored: StoredSpec | None) -> str:
    try:
        return codec.fingerprint_of(stored).hex() if stored else ""
    except codec.DamagedRecord:
        return ""


def message(notice: Notice, hook: Webhook) -> bytes | None:
    """The body for a webhook; None if its receiver is outside the task's fence."""
    fence = set(notice.record.fence)
    inside = not fence or not fence.isdisjoint(hook.residency)
    if hook.residency and not inside:
        return None
    body = {
        "type": _TYPE,
        "timestamp": _instant(notice.record.finished_ms),
        "data": about(notice, whole=inside),
    }
    return json.dumps(body, separators=(",", ":")).encode()


def task(notice: Notice, hook: DeadTaskHandler, fleet: Fleet) -> NewTask:
    """The task that tells of it, in the dead one's region, partition and fence.

    Its id follows from the death, so that storing it twice stores one.
    """
    record, stored = notice.record, spec_of(notice)
    death = blake2b(f"{record.task_id} {record.token}".encode(), digest_size=6).digest()
    new_id = ids.mint(
        record.finished_ms,
        ids.region_code(record.region),
        ids.parse(record.task_id).partition,
        int.from_bytes(death, "big"),
    )
    tenant = stored.spec.tenant if stored else ""
    spec = TaskSpec(
        queue=hook.queue,
        name=hook.task,
        payload=json.dumps({"dead": about(notice)}, separators=(",", ":")).encode(),
        content_type=_JSON,
        priority=PRIORITY_NORMAL,
        tenant=tenant,
        residency=record.fence,
    )
    packed = codec.pack(
        Draft(hook.task, queue=hook.queue, spec=spec.SerializeToString()),
        fingerprint=fingerprint_of(
            tenant=tenant, queue=hook.queue, name=hook.task, identity=new_id
        ),
        fence=record.fence,
        traceparent=stored.traceparent if stored else "",
        birth_region=record.region,
        deduplicated=False,
    )
    return NewTask(
        task_id=new_id,
        queue=hook.queue,
        name=hook.task,
        priority=Priority.NORMAL,
        packed=codec.announcing(packed, record.task_id),
        fence=record.fence,
        max_crashes=fleet.queue(hook.queue).max_crashes,
    )


def _earlier_regions(packed: bytes) -> list[str]:
    try:
        return [stay.region for stay in codec.hops(packed)]
    except codec.DamagedRecord:
        return []


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
