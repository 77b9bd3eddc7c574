"""What operators order, carried out and written down to its end, whoever still listens.

A caller that leaves takes nothing back: the change is on its way to the regions by then, and what
it came to has to be in the records.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from router.audit import Audit
from router.control import Orders
from router.redrive import Done
from router.vote import Wish
from tradewind.audit import AuditRecord
from tradewind.control import Control

T = TypeVar("T")

_STOOD: Final = {"outcome": "stood already"}  # nothing was to be changed
_UNKNOWN: Final = {"outcome": "unknown"}  # the change may be in force, or come into force later


@dataclass(frozen=True, slots=True)
class Records:
    """Where to keep records: in `own`, the router's region, unless another one is meant."""

    audit: Audit
    own: str

    async def keep(self, record: AuditRecord, region: str = "") -> None:
        """Keep it. Never raises."""
        await self.audit.note(record, region or self.own)

    async def keep_dead(self, record: AuditRecord, queue: str, done: Done) -> None:
        """Each region keeps what was done to its own dead tasks, and of how many it is unknown."""
        for region in sorted(done.counts.keys() | done.unknown.keys()):
            counts, told = {queue or "all queues": done.counts.get(region, 0)}, dict(record.told)
            if unknown := done.unknown.get(region):
                told["outcome_unknown"] = str(unknown)
            await self.keep(replace(record, on=region, counts=counts, told=told), region)


@dataclass(frozen=True, slots=True)
class Ordered:
    """What holds after an order. `stood`: it did so before, and nothing was changed."""

    control: Control
    stood: bool


class Deeds:
    """Holds what operators ordered until it has ended. Belongs to one event loop."""

    def __init__(self, orders: Orders) -> None:
        """`orders`: what changes go through."""
        self._orders = orders
        self._held: set[asyncio.Task[Any]] = set()

    async def order(
        self, wish: Wish, record: AuditRecord, records: Records, *, settles: Sequence[str] = ()
    ) -> Ordered:
        """Bring a change into force and keep the record of it; see `Orders.change`.

        Of an order that stood already the record says so: who gave it again may matter, too. Of one
        that fails after some region was asked to take it likewise.
        """
        return await self.hold(self._order(wish, record, records, settles))

    async def hold(self, deed: Coroutine[Any, Any, T]) -> T:
        """Return what it comes to; it goes on if the caller is gone."""
        work = asyncio.get_running_loop().create_task(deed)
        self._held.add(work)
        work.add_done_callback(self._let_go)
        return await asyncio.shield(work)

    async def drain(self) -> None:
        """Return once all has ended."""
        while self._held:
            await asyncio.wait(self._held)

    async def _order(
        self, wish: Wish, record: AuditRecord, records: Records, settles: Sequence[str]
    ) -> Ordered:
        is_asked = False  # whether regions were asked to take it

        def asked() -> None:
            nonlocal is_asked
            is_asked = True

        try:
            version = await self._orders.change(replace(wish, asked=asked), settles=settles)
        except Exception:
            if is_asked:
                await records.keep(_with(record, _UNKNOWN))
            raise
        await records.keep(record if is_asked else _with(record, _STOOD))
        return Ordered(version, stood=not is_asked)

    def _let_go(self, work: asyncio.Task[Any]) -> None:
        self._held.discard(work)
        if not work.cancelled():
            work.exception()  # seen, if nobody waits for it any more


def _with(record: AuditRecord, told: Mapping[str, str]) -> AuditRecord:
    return replace(record, told={**record.told, **told})
