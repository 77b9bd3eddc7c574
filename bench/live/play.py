"""A plan, played live: callers, weather, and whoever looks on."""

import asyncio
import random
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import accumulate
from pathlib import Path

from bench.live.app import HANDLER
from bench.live.place import Place, place
from bench.live.plan import Plan
from bench.live.seen import Record, Seen
from bench.live.simulated import FIRST_S, TRACE
from bench.sim import traces
from bench.sim.model import Origin
from tradewind import Client, TradewindError
from tradewind.policy.choose import TRIAL
from tradewind.policy.filters import OUTSIDE_FENCE

_LOOK_EVERY_S = 0.25
_IDLE_S = 30.0  # without one more task that starts: the others are lost
_POLL_S = 0.2


class _Play:
    def __init__(self, plan: Plan, place: Place, clients: Mapping[str, Client], seed: int) -> None:
        self._plan, self._place, self._clients = plan, place, clients
        self._chance = random.Random(f"world/{seed}")
        chance = random.Random(f"arrivals/{seed}")
        self._arrivals = traces.load(TRACE).arrivals(
            plan.rate, plan.world.service_s, FIRST_S, chance
        )
        self._origins = list(plan.world.origins(plan.world.fleet()))
        self._reach = list(accumulate(origin.share for origin in self._origins))
        self._begun_s = time.monotonic()
        self.tasks: list[Seen] = []
        self.changes: dict[tuple[str, str], list[float]] = {}

    def now_s(self) -> float:
        return time.monotonic() - self._begun_s

    async def run(self) -> None:
        """Until the last task was answered."""
        looking = [asyncio.create_task(self._look(*each)) for each in self._clients.items()]
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._weather())
                await self._feed(group)
        finally:
            for each in looking:
                each.cancel()
            await asyncio.gather(*looking, return_exceptions=True)

    async def until(self, at_s: float) -> None:
        await asyncio.sleep(max(0.0, at_s - self.now_s()))

    async def _weather(self) -> None:
        async with asyncio.TaskGroup() as group:
            for change in self._plan.script.changes:
                await self.until(change.at_s)
                group.create_task(self._place.become(change.region, change.condition))

    async def _feed(self, group: asyncio.TaskGroup) -> None:
        for at_s, seconds in self._arrivals:
            if at_s >= self._plan.length_s:
                return
            await self.until(at_s)
            draw = self._chance.random() * self._reach[-1]
            ways = zip(self._origins, self._reach, strict=True)
            origin = next(each for each, upper in ways if draw < upper)
            group.create_task(self._submit(origin, seconds))

    async def _submit(self, origin: Origin, seconds: float) -> None:
        has_place = any(self._place.condition[name].takes_work for name in origin.permitted)
        seen = Seen(self.now_s(), origin.region, origin.permitted, has_place)
        args = {"index": len(self.tasks), "seconds": seconds}
        self.tasks.append(seen)
        try:
            receipt = await self._clients[origin.region].submit(
                HANDLER, args, residency=list(origin.draft.residency)
            )
        except TradewindError:
            return
        seen.answered_s = seen.stored_s = self.now_s()
        seen.stored_in = receipt.region

    async def _look(self, region: str, client: Client) -> None:
        """Note whether the region's router would send a task without a fence to each region."""
        before: dict[str, bool] = {}
        while True:
            try:
                route = await client.explain(HANDLER, {"index": 0, "seconds": 0.0}, deadline=1)
            except TradewindError:
                await asyncio.sleep(_LOOK_EVERY_S)
                continue
            for each in route.candidates if route.step != TRIAL else ():
                if each.excluded_by.startswith(OUTSIDE_FENCE):
                    continue
                if before.get(each.region, True) is not each.eligible:
                    self.changes.setdefault((region, each.region), []).append(self.now_s())
                before[each.region] = each.eligible
            await asyncio.sleep(_LOOK_EVERY_S)

    async def heard(self, ledger: Path) -> None:
        """Read the ledger until every stored task has started, or none does any more."""
        wanted = {index for index, task in enumerate(self.tasks) if task.stored_in}
        count, heard_s = -1, self.now_s()
        while True:
            starts = _starts(ledger)
            if wanted <= starts.keys() or self.now_s() - heard_s > _IDLE_S:
                break
            if len(starts) > count:
                count, heard_s = len(starts), self.now_s()
            await asyncio.sleep(_POLL_S)
        for index, lines in starts.items():
            task = self.tasks[index]
            task.started_s = lines[0][1] - self._begun_s
            task.started_in = tuple(region for region, _ in lines)


def _starts(ledger: Path) -> dict[int, list[tuple[str, float]]]:
    found: dict[int, list[tuple[str, float]]] = {}
    for line in ledger.read_text(encoding="utf-8").splitlines():
        index, _, region, at_ns = line.split()
        found.setdefault(int(index), []).append((region, int(at_ns) / 1e9))
    return found


async def play(plan: Plan, config: Path, home: Path, seed: int) -> Record:
    """Play it in `home`, in real time. Raises LocalSetupError if this machine cannot."""
    ledger = home / "ledger"
    ledger.touch()
    async with place(plan, config, home, ledger) as running, AsyncExitStack() as stack:
        clients = {
            region: await stack.enter_async_context(running.client(region, plan.script.patience_s))
            for region in plan.world.matrix.regions
        }
        played = _Play(plan, running, clients, seed)
        await played.run()
        await played.heard(ledger)
    return Record(played.tasks, played.changes)
