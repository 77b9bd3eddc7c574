"""What the parts of a region's store share."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from tradewind.errors import StoreContractBroken, StoreError
from tradewind.ids import parse, partition_of
from tradewind.limits import REQUEST_ID_WINDOW_MS
from tradewind.store.region_client import Call, RegionClient
from tradewind.store.replies import DEFAULT_MAX_CRASHES
from tradewind.store.scripts import Arg
from tradewind.task import LedgerMark

Answer = TypeVar("Answer")


class Role:
    """One side of a region's store; the client is shared by all sides."""

    def __init__(self, client: RegionClient) -> None:
        """`client` of the region."""
        self._client = client

    @property
    def region(self) -> str:
        """Name of the region."""
        return self._client.name

    @property
    def partitions(self) -> int:
        """How many partitions the region has."""
        return self._client.fleet.partitions

    def _entry_partition(self, mark: LedgerMark, task_id: str) -> int:
        """Where a ledger entry lives in its home.

        A business key must be found whatever id a repeat brings; a request_id's repeat is the same
        message and so lands in the same partition as its task.
        """
        if mark.business:
            return partition_of(mark.key, self.partitions)
        return partition_in(task_id)

    def _hooked(self) -> str:
        """Which queues have an on_dead, as scripts that bury take it: see lua/lib/announce.lua."""
        hooked = self._client.fleet.hooked
        return json.dumps(hooked) if hooked else ""

    def _kept_ms(self, queue: str, done_key: bytes) -> int:
        """For how long a record stays once its task has expired, which nobody reports.

        As long as a completed one, and at least as long as a ledger entry may name it.
        """
        policy = self._client.fleet.queue(queue)
        window_ms = policy.dedup.window_ms if done_key else REQUEST_ID_WINDOW_MS
        return max(policy.retention.completed_ms, window_ms)


def partition_in(task_id: str) -> int:
    """The partition a task id carries. Raises MalformedTaskId."""
    return parse(task_id).partition


def unless_default(max_crashes: int) -> Arg:
    """The default is not stored: most tasks have it, and scripts assume it where there is none."""
    return "" if max_crashes == DEFAULT_MAX_CRASHES else max_crashes


async def batched(
    client: RegionClient,
    places: Sequence[int],
    build: Callable[[int, Sequence[int]], Call],
    decode: Callable[[Sequence[int], Sequence[Any]], Sequence[Answer]],
    *,
    timeout_s: float,
) -> list[Answer | StoreError]:
    """One call per partition for items at `places`; answers in the order of the items.

    `build(partition, indices)` makes the call, `decode(indices, parts)` reads what the reply says
    of each, which follows its tag. Those of a partition that moves get StoreMoving at once: the
    others do not wait for it.
    """
    by_partition: dict[int, list[int]] = {}
    for index, partition in enumerate(places):
        by_partition.setdefault(partition, []).append(index)
    calls = [build(partition, indices) for partition, indices in by_partition.items()]
    replies = await client.run_each(calls, timeout_s=timeout_s, await_slot=False)
    answers: list[Answer | StoreError] = [_MISSING] * len(places)
    for indices, reply in zip(by_partition.values(), replies, strict=True):
        is_error = isinstance(reply, StoreError)
        found = [reply] * len(indices) if is_error else decode(indices, reply[1:])
        for index, answer in zip(indices, found, strict=True):
            answers[index] = answer
    return answers


_MISSING: Final = StoreContractBroken("a script did not answer for all of its items")
