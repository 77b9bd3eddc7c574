"""Dead tasks of all regions, page by page: region after region, partition after partition."""

import asyncio
import base64
import binascii
from collections.abc import Collection, Mapping, Sequence
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
_COUNTED: Final = 100  # records of a partition held at a time while counting
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
    def is_by_queue(self) -> bool:
        """Whether it asks for no more than regions and a queue, which the store counts."""
        return self == Filter(self.regions, queue=self.queue)

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
    """Where a page begins: in which region and partition, behind which of the store's cursors.

    `total` is what the first page has counted, so that the others need not count again.
    """

    region: str
    partition: int
    after: str = ""
    total: int = 0

    def token(self, total: int) -> str:
        """Return the place as an opaque text."""
        text = f"{self.region}\n{self.partition}\n{self.after}\n{total}"
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def read(cls, token: str, regions: Sequence[str]) -> Self:
        """Read a token that `token` made under the same filter. Raises InvalidTask."""
        if not token:
            return cls(regions[0], 0)
        try:
            text = base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
            region, partition, after, total = text.split("\n")
            place = cls(region, int(partition), after, int(total))
        except (binascii.Error, ValueError):
            place = None
        if place is None or place.region not in regions or min(place.partition, place.total) < 0:
            raise InvalidTask.field(
                "page_token", "is not the next_page_token of a page with the same filter"
            )
        return place


@dataclass(slots=True)
class Page:
    """What one call found."""

    records: list[Record] = field(default_factory=list[Record])
    next: Place | None = None
    total: int = 0  # of all pages; not for a filter that is by queue
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
        first = Place.read(token, wanted.regions)
        page = await self._page(wanted, size, self._places(first, wanted.regions))
        if token or wanted.is_by_queue:
            page.total = first.total
        elif page.next is None:
            page.total = len(page.records)
        else:
            page.total = await self._count(wanted, page.silent)
        return page

    async def _page(self, wanted: Filter, size: int, places: list[Place]) -> Page:
        page, read = Page(), 0
        while places:
            if len(page.records) >= size or read >= _MAX_READ:
                page.next = places[0]
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
                    page.next = places[0]
                    return page
                page.records += matching
                if after:
                    places = [replace(place, after=after), *window[done + 1 :], *places]
                    break
        return page

    async def _count(self, wanted: Filter, silent: Collection[str]) -> int:
        """Count what matches, in the first _MAX_READ dead tasks of the regions that answer."""
        regions = [region for region in wanted.regions if region not in silent]
        places = self._places(Place(regions[0], 0), regions) if regions else []
        total = read = 0
        while places and read < _MAX_READ:
            window, places = places[:_AT_ONCE], places[_AT_ONCE:]
            answers = await asyncio.gather(*(self._read(place, _COUNTED) for place in window))
            unread: list[Place] = []
            for place, answer in zip(window, answers, strict=True):
                records, after = answer or ([], "")
                read += len(records)
                now_ms = self._clock.now_ms()
                total += sum(wanted.matches(record, now_ms) for record in records)
                if after:
                    unread.append(replace(place, after=after))
            places = unread + places
        return total

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
