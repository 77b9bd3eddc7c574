"""Dead tasks of all regions, page by page, oldest death first.

Every partition keeps its own in that order; a page merges them. Where a page ended is a moment and
an id, whatever region it was in: so the next one goes on there, whoever came or went meanwhile.
"""

import asyncio
import base64
import binascii
import heapq
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

from router.lookup import SILENT_AFTER_S
from router.server_clock import region_now_ms
from tradewind import codec, ids, wire
from tradewind.errors import InvalidTask, StoreError, Violation
from tradewind.limits import MAX_PAGE_SIZE
from tradewind.ports import Reads, Vitals
from tradewind.task import Record
from tradewind.v1 import admin_pb2

DEFAULT_PAGE_SIZE: Final = 100  # as admin.proto says
KINDS: Final = ("exhausted", "timeout", "crashed", "rejected", "damaged")

_AT_ONCE: Final = 16  # partitions of a region asked side by side: four round trips for 64
_MAX_READ: Final = 10_000  # records looked at for one page (invariant 9); the next goes on there
_FEWEST: Final = 2  # records first read of a partition, however many there are
_MOST: Final = 256  # records read of a partition at a time
_LATEST_MS: Final = 2**53  # Redis keeps moments as doubles
_MOST_TASKS: Final = 2**63  # of a uint64 `total`, with room to spare


class DeadReads(Reads, Vitals, Protocol):
    """What this needs of one region."""


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

    def told(self) -> dict[str, str]:
        """What was asked for, as a record of it may say: no text of errors, which may be fenced."""
        said = {
            "name": self.name,
            "error_kind": self.kind,
            "error_contains": "some text" if self.text else "",
            "older_than": f"{self.older_than_ms} ms" if self.older_than_ms else "",
            "task_ids": f"{len(self.task_ids)} of them" if self.task_ids else "",
        }
        return {name: text for name, text in said.items() if text}

    def matches(self, record: Record, now_ms: int) -> bool:
        """Whether a dead task is wanted. `now_ms` is by the clock of its region."""
        if self.task_ids and record.task_id not in self.task_ids:
            return False
        if self.kind and wire.error_kind(record.death, record.failure) != self.kind:
            return False
        if self.text and (record.failure is None or self.text not in record.failure.message):
            return False
        if self.older_than_ms and now_ms - record.finished_ms < self.older_than_ms:
            return False
        return (not self.queue and not self.name) or self._is_of(record.packed)

    def _is_of(self, packed: bytes) -> bool:
        try:
            spec = codec.unpack(packed).spec
        except codec.DamagedRecord:
            return False
        return self.queue in {"", spec.queue} and self.name in {"", spec.name}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page begins: behind which death. By default, at the start.

    `total` is what the first page has counted, so that the others need not count again.
    """

    died_ms: int = 0
    task_id: str = ""
    total: int = 0

    @property
    def after(self) -> str:
        """The place as a cursor of every partition (ports.Reads)."""
        return f"{self.died_ms}:{self.task_id}" if self.task_id else ""

    def token(self, total: int) -> str:
        """Return the place as an opaque text."""
        text = f"{self.died_ms}\n{self.task_id}\n{total}"
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def read(cls, token: str) -> Self:
        """Read a token that `token` made. Raises InvalidTask."""
        if not token:
            return cls()
        try:
            text = base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
            died_ms, task_id, total = text.split("\n")
            place = cls(int(died_ms), task_id, int(total))
        except (binascii.Error, ValueError):
            place = None
        if (
            place is None
            or not ids.is_task_id(place.task_id)
            or not 0 <= place.died_ms < _LATEST_MS
            or not 0 <= place.total < _MOST_TASKS
        ):
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


@dataclass(slots=True)
class _Source:
    """The dead tasks of one partition, oldest first, as far as they were read."""

    region: str
    partition: int
    after: str  # cursor behind what was read
    step: int  # records to read next
    now_ms: int = 0  # by the region's clock, when it was read last
    is_over: bool = False  # nothing is left to read
    found: deque[Record] = field(default_factory=deque[Record])

    @property
    def is_dry(self) -> bool:
        """Whether more must be read before its next one is known."""
        return not self.found and not self.is_over

    @property
    def is_low(self) -> bool:
        """Whether it soon will be: what is read ahead stays in step with what was taken."""
        return not self.is_over and len(self.found) <= self.step // 4

    def head(self) -> tuple[int, str]:
        """Its next one, in the order of the list. A partition orders by the same moment."""
        return self.found[0].finished_ms, self.found[0].task_id


class DeadTasks:
    """Reads the dead letters of all regions."""

    def __init__(self, reads: Mapping[str, DeadReads], partitions: int) -> None:
        """`reads` by region name. The clock of each judges `older_than`."""
        self._reads, self._partitions = reads, partitions

    async def page(self, wanted: Filter, size: int, token: str) -> Page:
        """Return up to `size` dead tasks from where `token` points. Raises InvalidTask."""
        if size > MAX_PAGE_SIZE:
            raise InvalidTask.field("page_size", f"may be at most {MAX_PAGE_SIZE}")
        first = Place.read(token)
        page = await self._page(wanted, size or DEFAULT_PAGE_SIZE, first)
        if token or wanted.is_by_queue:
            page.total = first.total
        elif page.next is None:
            page.total = len(page.records)
        else:
            page.total = await self._count(wanted, page.silent)
        return page

    async def _page(self, wanted: Filter, size: int, place: Place) -> Page:
        """Merge the partitions from `place` on.

        The first reads bring _FEWEST of each partition, or twice the page in all; the later ones at
        most four times what is looked at: a partition is read on, for twice as many as before, once
        a quarter of that or less is left (is_low), so its second read follows one that was taken.
        """
        page, looked_at = Page(), 0
        step = max(_FEWEST, 2 * size // (len(wanted.regions) * self._partitions))
        sources = self._sources(wanted.regions, place.after, step)
        while True:
            while any(source.is_dry for source in sources):
                await self._read_on([each for each in sources if each.is_low], page.silent)
            heads = [(s.head(), number) for number, s in enumerate(sources) if s.found]
            heapq.heapify(heads)
            is_dry = False
            while heads and not is_dry:
                if len(page.records) >= size or looked_at >= _MAX_READ:
                    page.next = place
                    return page
                (died_ms, task_id), number = heads[0]
                source = sources[number]
                record, place = source.found.popleft(), Place(died_ms, task_id)
                looked_at += 1
                if wanted.matches(record, source.now_ms):
                    page.records.append(record)
                if source.found:
                    heapq.heapreplace(heads, (source.head(), number))
                else:
                    heapq.heappop(heads)
                    is_dry = source.is_dry
            if not is_dry:
                return page

    async def _count(self, wanted: Filter, silent: Collection[str]) -> int:
        """Count what matches, in about _MAX_READ dead tasks of the regions that answer."""
        unheard, total, read = set(silent), 0, 0
        regions = [region for region in wanted.regions if region not in unheard]
        sources = self._sources(regions, "", 0)
        while sources and read < _MAX_READ:
            for source in sources:
                source.step = min(_MOST, max(1, (_MAX_READ - read) // len(sources)))
            await self._read_on(sources, unheard)
            for source in sources:
                read += len(source.found)
                total += sum(wanted.matches(record, source.now_ms) for record in source.found)
                source.found.clear()
            sources = [source for source in sources if not source.is_over]
        return total

    def _sources(self, regions: Sequence[str], after: str, step: int) -> list[_Source]:
        return [_Source(r, p, after, step) for r in regions for p in range(self._partitions)]

    async def _read_on(self, sources: Sequence[_Source], silent: set[str]) -> None:
        """Read the next of each, regions side by side; adds regions that did not answer."""
        room = {source.region: asyncio.Semaphore(_AT_ONCE) for source in sources}
        await asyncio.gather(
            *(self._read(source, room[source.region], silent) for source in sources)
        )

    async def _read(self, source: _Source, room: asyncio.Semaphore, silent: set[str]) -> None:
        async with room:
            if source.region in silent:
                source.is_over = True
                return
            store = self._reads[source.region]
            try:
                async with asyncio.timeout(SILENT_AFTER_S):
                    records, source.after = await store.dead_page(
                        source.partition, after=source.after, limit=source.step
                    )
                    source.now_ms = await region_now_ms(store)
            except (StoreError, TimeoutError):
                silent.add(source.region)
                source.is_over = True
                return
        source.found.extend(records)
        source.is_over = not source.after
        source.step = min(2 * source.step, _MOST)
