"""Which regions can keep tasks as durably as the queues of the file ask: each is asked by and by.

A region whose Redis cannot is out for these queues: from the first look on if it could not then,
later once two looks in a row have said so. A replica that is away for seconds, as during a
failover, is a matter of single receipts.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, Protocol

from router.failures import report
from router.regional import Regional
from tradewind.errors import StoreError
from tradewind.fleet import Durability, Fleet
from tradewind.metrics import REGION_DURABILITY, forget
from tradewind.ports import Durables
from tradewind.ticks import tick

_log = logging.getLogger(__name__)

LOOK_S: Final = 30.0  # between looks: how a Redis is run changes seldom
AGAIN_S: Final = 1.0  # after one that was not answered
_ANSWER_S: Final = 3.0


class Seen(Protocol):
    """What this needs of the census."""

    def lack(self, region: str, durabilities: Mapping[str, str]) -> None:
        """Route nothing there that asks for one of these; each with its cause."""
        ...


class Fitness:
    """Keeps the census up to date about it, while some queue asks for more than memory."""

    def __init__(self, fleet: Fleet, stores: Mapping[str, Durables], census: Seen) -> None:
        """`stores` by region name."""
        self._census = census
        self._looks = Regional(self._loop)
        self._found: dict[str, Mapping[Durability, str]] = {}  # by the look before
        self._out: dict[str, dict[Durability, str]] = {}  # with its cause
        self._first: dict[str, asyncio.Event] = {}
        self._stores: Mapping[str, Durables] = {}
        self._queues: dict[Durability, list[str]] = {}  # that ask for it
        self.follow(fleet, stores)

    def follow(self, fleet: Fleet, stores: Mapping[str, Durables]) -> None:
        """Go on with another fleet: each region is looked at anew, at once."""
        for name, store in self._stores.items():
            if stores.get(name) is not store:
                self._forget(name)
        queues: dict[Durability, list[str]] = {}
        for queue, durability in fleet.durable.items():
            queues.setdefault(durability, []).append(queue or "default")
        for durability in self._queues.keys() - queues.keys():
            for name in self._out:
                forget(REGION_DURABILITY, name, durability)
        self._queues = queues
        self._stores = dict(stores)
        for name, out in self._out.items():
            self._census.lack(name, {**out})
        self._first = {name: asyncio.Event() for name in stores} if self._queues else {}
        self._looks.follow(dict.fromkeys(self._first, object()))

    async def first_look(self, timeout_s: float) -> None:
        """Return once every region has been asked, or in `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(event.wait() for event in self._first.values()))
        except TimeoutError:
            return

    async def run(self) -> None:
        """Look until cancelled."""
        await self._looks.run()

    async def look(self, name: str) -> bool:
        """Look once at a region. Returns whether it answered."""
        store = self._stores[name]
        try:
            async with asyncio.timeout(_ANSWER_S):
                found = await store.lacks()
        except (StoreError, TimeoutError):
            return False
        if self._stores.get(name) is store:
            self._take(name, found)
        return True

    def _take(self, name: str, found: Mapping[Durability, str]) -> None:
        before = self._found.get(name, found)
        self._found[name] = found
        were = self._out.get(name, {})
        out: dict[Durability, str] = {
            d: found[d] for d in self._queues if d in found and (d in before or d in were)
        }
        for durability in self._queues:
            REGION_DURABILITY.labels(name, durability).set(durability not in out)
        self._out[name] = out
        if out == were:
            return
        self._census.lack(name, {**out})
        for durability in out.keys() - were:
            _log.warning(
                "a region cannot keep tasks as durably as their queue asks; they go elsewhere",
                extra=self._told(name, durability) | {"cause": found[durability]},
            )
        for durability in were.keys() - out:
            _log.info("a region keeps tasks durably again", extra=self._told(name, durability))

    def _told(self, name: str, durability: Durability) -> dict[str, object]:
        queues = self._queues.get(durability, [])
        return {"of": name, "durability": durability, "queues": queues}

    def _forget(self, name: str) -> None:
        self._found.pop(name, None)
        self._out.pop(name, None)
        for durability in self._queues:
            forget(REGION_DURABILITY, name, durability)

    async def _loop(self, name: str) -> None:
        while True:
            answered = False
            try:
                answered = await self.look(name)
            except Exception as error:  # noqa: BLE001 - a bug here must not end a router
                report("durability", error)
            self._first[name].set()
            await tick(LOOK_S if answered else AGAIN_S)
