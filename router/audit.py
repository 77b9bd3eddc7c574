"""Records of what operators did: each kept in one region, listed for all, latest first."""

import asyncio
import base64
import binascii
import heapq
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, cast

from router.lookup import SILENT_AFTER_S
from tradewind.audit import AuditRecord
from tradewind.errors import InvalidTask, StoreError
from tradewind.limits import MAX_PAGE_SIZE
from tradewind.ports import Audits

_log = logging.getLogger(__name__)

DEFAULT_PAGE_SIZE: Final = 100
_NOTED_S: Final = 3.0  # for a record in all: the caller waits for it
_EACH_S: Final = 1.0  # of them for one region, so that another is asked in time
_PLACE_DIGITS: Final = 20  # of each part: 64 bits


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some records, latest first; `next_token` is empty on the last page."""

    records: Sequence[AuditRecord]
    next_token: str
    silent: Sequence[str]  # regions that did not answer


class Audit:
    """The records of all regions."""

    def __init__(
        self, stores: Mapping[str, Audits], answers: Callable[[str], bool] = lambda _: True
    ) -> None:
        """`stores` by region name. `answers(region)`: whether a call to it is worth while."""
        self._stores, self._answers = stores, answers

    async def note(self, record: AuditRecord, region: str) -> None:
        """Keep a record in `region`, or in the first other one that answers; in 3 s in all.

        Those that were silent lately come last. Never raises: what it tells of has been done.
        Where nobody keeps it, the log has it.
        """
        names = [region, *(other for other in self._stores if other != region)]
        try:
            async with asyncio.timeout(_NOTED_S):
                for name in sorted(names, key=self._answers, reverse=True):
                    if await self._keeps(record, name):
                        return
        except TimeoutError:
            pass
        extra = {
            "deed": record.deed,
            "who": record.who,
            "on": record.on,
            "why": record.why,
            "counts": dict(record.counts),
            "details": dict(record.told),
        }
        _log.error("no region could keep the record of what was done", extra=extra)

    async def _keeps(self, record: AuditRecord, region: str) -> bool:
        store = self._stores.get(region)  # it may have left the file meanwhile
        if store is None:
            return False
        try:
            async with asyncio.timeout(_EACH_S):
                await store.audit(record)
        except (StoreError, TimeoutError):
            return False
        return True

    async def page(self, regions: Sequence[str], size: int, token: str) -> AuditPage:
        """Return the latest records of `regions`, or those that follow the page with `token`.

        A region that is silent is left out of this page and of those that follow it, so that each
        goes back in time. Raises InvalidTask.
        """
        if size > MAX_PAGE_SIZE:
            raise InvalidTask.field("page_size", f"must be at most {MAX_PAGE_SIZE}")
        size = size or DEFAULT_PAGE_SIZE
        before = _places(token) if token else dict.fromkeys(regions, "")
        asked = [name for name in regions if name in before]
        answers = await asyncio.gather(*(self._read(name, before[name], size) for name in asked))
        found = {name: each for name, each in zip(asked, answers, strict=True) if each is not None}
        merged = heapq.merge(*found.values(), key=lambda record: -record.at_ms)
        records = list(islice(merged, size))
        after = {name: before[name] for name in found}
        for record in records:
            after[record.region] = record.place
        read = [len(each) for each in found.values()]
        is_last = sum(read) == len(records) and size not in read
        silent = [name for name in regions if name not in found]
        return AuditPage(records, "" if is_last else _token(after), silent)

    async def _read(self, region: str, before: str, size: int) -> Sequence[AuditRecord] | None:
        if region not in self._stores:
            return None
        try:
            async with asyncio.timeout(SILENT_AFTER_S):
                return await self._stores[region].audited(before=before, limit=size)
        except (StoreError, TimeoutError):
            return None


def _token(places: Mapping[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(places).encode()).decode()


def _places(token: str) -> dict[str, str]:
    """Read a token that `_token` made. Raises InvalidTask."""
    try:
        found = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        places = cast("dict[str, object]", found)
        if all(isinstance(place, str) and _is_place(place) for place in places.values()):
            return cast("dict[str, str]", places)
    raise InvalidTask.field("page_token", "is not the next_page_token of an earlier page")


def _is_place(text: str) -> bool:
    """Whether it is the id of a stream's entry, or none."""
    if not text:
        return True
    parts = text.split("-")
    are_numbers = all(
        part.isascii() and part.isdigit() and len(part) <= _PLACE_DIGITS for part in parts
    )
    # No entry is at 0-0, and Redis takes nothing from before it.
    return len(parts) == 2 and are_numbers and 0 < max(map(int, parts)) < 1 << 64
