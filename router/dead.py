"""Dead tasks of all regions, page by page: region after region, partition after partition."""

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from tradewind import ids, wire
from tradewind.clock import Clock
from tradewind.errors import InvalidTask, StoreError, Violation
from tradewind.limits import MAX_PAGE_SIZE
from tradewind.ports import Reads
from tradewind.task import Record
from tradewind.v1 import admin_pb2

DEFAULT_PAGE_SIZE: Final = 100  # contract, ListDeadTasksRequest.page_size
KINDS: Final = ("exhausted", "timeout", "crashed", "rejected", "damaged")

_AT_ONCE: Final = 16  # partitions asked side by side: four round trips a region of 64
_MAX_READ: Final = 10_000  # records read for one page (invariant 9); the next page goes on there
_TIMEOUT_S: Final = 5.0  # of one region's answer


@dataclass(frozen=True, slots=True)
class Filter:
    """Which dead tasks. Empty parts match all."""

    regions: tuple[str, ...]
    queue: str = ""
    name: str = ""
    kind: str = ""
    text: str = ""
    older_than_ms: int = 0
    task_ids: frozenset[str] = frozenset()

    @classmethod
    def read(cls, sent: admin_pb2.DeadTaskFilter, regions: tuple[str, ...]) -> Self:
        """Check a filter as it was sent, with its regions resolved. Raises InvalidTask."""
        found: list[Violation] = []
        if sent.error_kind and sent.error_kind not in KINDS:
            found.append(Violation("filter.error_kind", f"must be one of {', '.join(KINDS)}"))
        if len(sent.task_ids) > MAX_PAGE_SIZE:
            found.append(Violation("filter.task_ids", f"may hold at most {MAX_PAGE_SIZE} ids"))
        elif not all(ids.is_task_id(task_id) for task_id in sent.task_ids):
            found.append(Violation("filter.task_ids", "holds a text that is not a task id"))
        if sent.older_than.seconds < 0 or sent.older_than.nanos < 0:
            found.append(Violation("filter.older_than", "must not be negative"))
        if found:
            raise InvalidTask(found)
        return cls(
            regions,
            queue=sent.queue,
            name=sent.name,
            kind=sent.error_kind,
            text=sent.error_contains,
            older_than_ms=sent.older_than.seconds * 1_000 + sent.older_than.nanos // 1_000_000,
            task_ids=frozenset(sent.task_ids),
        )

    @property
    def is_narrow(self) -> bool:
        """Whether a dead task of these regions may fail to match."""
        return self != Filter(self.regions)

    def matches(self, record: Record, now_ms: int) -> bool:
        """Whether a dead task is wanted."""
        if self.task_ids and record.task_id not in self.task_ids:
            return False
        if self.kind and wire.error_kind(record.death, record.failure) != self.kind:
            return False
        if self.text and (record.failure is None or self.text not in record.failure.message):
            return False
        if self.older_than_ms and now_ms - record.finished_ms < self.older_than_ms:
            return False
        if not self.queue and not self.name:
            return True
        spec = wire.task(record, whole=False).spec
        return self.queue in {"", spec.queue} and self.name in {"", spec.name}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page begins: in which region and partition, behind which of the store's cursors."""

    region: str
    partition: int
    after: str = ""

    def token(self) -> str:
        """Return the place as an opaque text."""
        text = f"{self.region}\n{self.partition}\n{self.after}"
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def read(cls, token: str, regions: Sequence[str]) -> Self:
        """Read a token that `token` made under the same filter. Raises InvalidTask."""
        if not token:
            return cls(regions[0], 0)
        try:
            text = base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
            region, partition, after = text.split("\n")
            place = cls(region, int(partition), after)
        except (binascii.Error, ValueError):
            place = None
        if place is None or place.region not in regions or place.partition < 0:
            raise InvalidTask.field(
                "page_token", "is not the next_page_token of a page with the same filter"
            )
        return place


@dataclass(slots=True)
class Page:
    """What one call found."""

    records: list[Record] = field(default_factory=list[Record])
    next_token: str = ""
    silent: set[str] = field(default_factory=set[str])


class DeadTasks:
    """Reads the dead letters of all regions."""

    def __init__(self, reads: Mapping[str, Reads], partitions: int, clock: Clock) -> None:
        """`reads` by region name. `clock` judges `older_than`."""
        self._reads, self._partitions, self._clock = reads, partitions, clock

    async def page(self, wanted: Filter, size: int, token: str) -> Page:
        """Return up to `size` dead tasks from where `token` points. Raises InvalidTask."""
        if size > MAX_PAGE_SIZE:
            raise InvalidTask.field("page_size", f"may be at most {MAX_PAGE_SIZE}")
        size = size or DEFAULT_PAGE_SIZE
        page, read = Page(), 0
        places: list[Place] = self._places(Place.read(token, wanted.regions), wanted.regions)
        while places:
            if len(page.records) >= size or read >= _MAX_READ:
                page.next_token = places[0].token()
                break
            window = places[:_AT_ONCE]
            places = places[_AT_ONCE:]
            answers = await asyncio.gather(*(self._read(place, size) for place in window))
            for done, (place, answer) in enumerate(zip(window, answers, strict=True)):
                if answer is None:
                    page.silent.add(place.region)
                    continue
                records, after = answer
                read += len(records)
                matching = [r for r in records if wanted.matches(r, self._clock.now_ms())]
                if page.records and len(page.records) + len(matching) > size:
                    places = window[done:] + places
                    page.next_token = places[0].token()
                    return page
                page.records += matching
                if after:
                    places = [replace(place, after=after), *window[done + 1 :], *places]
                    break
        return page

    def _places(self, first: Place, regions: Sequence[str]) -> list[Place]:
        later = regions[list(regions).index(first.region) + 1 :]
        return [
            first,
            *(Place(first.region, p) for p in range(first.partition + 1, self._partitions)),
            *(Place(region, p) for region in later for p in range(self._partitions)),
        ]

    async def _read(self, place: Place, limit: int) -> tuple[list[Record], str] | None:
        if place.partition >= self._partitions:
            return [], ""
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await self._reads[place.region].dead_page(
                    place.partition, after=place.after, limit=limit
                )
        except (StoreError, TimeoutError):
            return None
