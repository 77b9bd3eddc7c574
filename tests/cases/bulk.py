"""Many tasks at once, stored as routers would, but for the RPC."""

import json
import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.flow.lab import Lab, Line
from tradewind import codec, ids
from tradewind.task import Draft, NewTask, Priority, Stored
from tradewind.v1.task_pb2 import TaskSpec

_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """One task of the handler `name`, in queue default."""

    name: str
    payload: dict[str, Any] = field(default_factory=dict[str, Any])
    priority: Priority = Priority.NORMAL
    delay_ms: int = 0
    max_attempts: int = 0
    partition: int | None = None


async def store_all(lab: Lab, wanted: Sequence[Wanted], region: str = "eu-west") -> list[str]:
    """Store them, in random partitions unless they name one. Returns their ids, in order."""
    new = [_new(lab, one, region) for one in wanted]
    for start in range(0, len(new), _AT_ONCE):
        batch = new[start : start + _AT_ONCE]
        outcomes, _ = await lab.stores[region].enqueue(batch, timeout_s=30)
        assert all(isinstance(outcome, Stored) for outcome in outcomes), outcomes
    return [task.task_id for task in new]


def _new(lab: Lab, one: Wanted, region: str) -> NewTask:
    place = one.partition
    if place is None:
        place = secrets.randbelow(lab.fleet.partitions)
    task_id = ids.mint(
        time.time_ns() // 1_000_000, ids.region_code(region), place, secrets.randbits(48)
    )
    data = json.dumps(one.payload).encode()
    spec = TaskSpec(
        name=one.name,
        payload=data,
        content_type="application/json",
        max_attempts=one.max_attempts,
    )
    packed = codec.pack(
        Draft(name=one.name, max_attempts=one.max_attempts, spec=spec.SerializeToString()),
        fingerprint=secrets.token_bytes(32),
        fence=(),
        traceparent="",
        birth_region=region,
        deduplicated=False,
    )
    return NewTask(task_id, "default", one.name, one.priority, packed, delay_ms=one.delay_ms)


async def started(lab: Lab, task_ids: Collection[str]) -> dict[str, Line]:
    """The first start of each, once all have started."""

    async def all_have() -> bool:
        return {line.task_id for line in lab.lines(event="start")}.issuperset(task_ids)

    await lab.until(all_have)
    first: dict[str, Line] = {}
    for line in lab.lines(event="start"):
        first.setdefault(line.task_id, line)
    return first
