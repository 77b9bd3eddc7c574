"""Running scripts against one region: the right node, the right answer to every kind of refusal.

A script is never sent after ASK: ASK, TRYAGAIN and a key that has left all mean
that the partition is moving, and the call is repeated at the map's owner within its deadline.
"""

import asyncio
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from redis import exceptions as redis_errors

from tradewind.errors import StoreError, StoreFull, StoreMoving, StoreUnavailable
from tradewind.fleet import Fleet, Region
from tradewind.metrics import REDIS_CALL_SECONDS
from tradewind.store import refusals, replies, scripts
from tradewind.store.cluster_map import redirected
from tradewind.store.fullness import Fullness
from tradewind.store.holding import Holding
from tradewind.store.keys import PartitionKeys, partition_keys
from tradewind.store.link import Command, Link, Reply
from tradewind.store.nodes import Nodes
from tradewind.store.refusals import Elsewhere, Later, ScriptUnknown
from tradewind.store.scripts import Arg, Item, Script

CALL_TIMEOUT_S = 5.0
# Back-off while a slot moves or a node loads (own choice: a slot moves in milliseconds).
PAUSE_FIRST_S, PAUSE_MAX_S = 0.025, 1.0


_timer = cache(REDIS_CALL_SECONDS.labels)  # one look-up a script
# After these nothing has changed, and the same call may go well.
_REPEATED = (Elsewhere, Later, ScriptUnknown, StoreMoving)


@dataclass(frozen=True, slots=True)
class Call:
    """One script call for one partition."""

    script: Script
    partition: int
    parts: Sequence[Arg]


class RegionClient:
    """The region's Redis as one thing to run scripts on."""

    def __init__(self, region: Region, fleet: Fleet) -> None:
        """Nothing is connected yet."""
        self.region = region
        self.fleet = fleet
        self.name = region.name
        self.keys: tuple[PartitionKeys, ...] = partition_keys(fleet.partitions)
        self.nodes = Nodes(region, fleet, incarnation=secrets.token_hex(8))
        self.holding = Holding(region.name)
        self._fullness = Fullness(region.name, self.nodes.owned_together)

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet: the same partitions, deployment and address as before."""
        self.fleet, self.region = fleet, fleet.regions[self.name]

    def call(
        self,
        script: str,
        partition: int,
        keys: Mapping[str, str],
        args: Mapping[str, Arg],
        items: Iterable[Item] = (),
    ) -> Call:
        """A call by slot names. Raises KeyError for a slot of the header that nobody gave."""
        loaded = scripts.load(script)
        return Call(loaded, partition, loaded.parts(keys, args, items))

    async def run(
        self,
        call: Call,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
        await_slot: bool = True,
        eager: bool = False,
    ) -> list[Reply]:
        """Run one call. Raises StoreError.

        A partition that moves is waited for until the deadline, then StoreMoving is raised; at
        once without `await_slot`. `eager`: connect however often that has failed of late.
        """
        until_s = time.monotonic() + timeout_s
        pause_s = PAUSE_FIRST_S
        started_s = time.perf_counter()
        try:
            while True:
                try:
                    return await self._once(call, until_s - time.monotonic(), eager=eager)
                except (Elsewhere, Later, StoreMoving) as error:
                    impatient = isinstance(error, StoreMoving) and not await_slot
                    if impatient or _too_late(pause_s, until_s):
                        raise refusals.final(self.name, error) from None
                    await self.heed(call.partition, error)
                except StoreUnavailable as error:
                    raise self.lost(call.partition, error) from None
                await asyncio.sleep(pause_s)
                pause_s = min(PAUSE_MAX_S, pause_s * 2)
        finally:
            _timer(call.script.name).observe(time.perf_counter() - started_s)

    async def run_each(
        self,
        calls: Sequence[Call],
        *,
        timeout_s: float = CALL_TIMEOUT_S,
        await_slot: bool = True,
    ) -> list[list[Reply] | StoreError]:
        """Run calls side by side; what is due at one node leaves in one write.

        A call that is to be repeated goes on alone; the others need no tasks of their own. Without
        `await_slot` nobody waits for a partition that moves: it gets StoreMoving.
        """
        until_s = time.monotonic() + timeout_s
        if len(calls) == 1:
            return [await self._alone(calls[0], until_s, await_slot=await_slot)]
        outcomes: list[list[Reply] | StoreError | None] = [None] * len(calls)
        together: dict[Link, list[int]] = {}
        apart: list[int] = []  # their node is not connected, for which the others are not to wait
        for index, call in enumerate(calls):
            link = self.nodes.ready_owner(call.partition)
            (apart if link is None else together.setdefault(link, [])).append(index)
        asking = [
            self._ask_together(link, calls, indices, outcomes, until_s, await_slot=await_slot)
            for link, indices in together.items()
        ]
        asking += [
            self._ask_alone(calls, index, outcomes, until_s, await_slot=await_slot)
            for index in apart
        ]
        if len(asking) == 1:
            await asking[0]
        else:
            await asyncio.gather(*asking)
        return [outcome for outcome in outcomes if outcome is not None]

    async def _ask_together(
        self,
        link: Link,
        calls: Sequence[Call],
        indices: Sequence[int],
        outcomes: list[list[Reply] | StoreError | None],
        until_s: float,
        *,
        await_slot: bool,
    ) -> None:
        """Fill in the outcomes of calls at one node."""
        commands = [["EVALSHA", calls[index].script.sha, *calls[index].parts] for index in indices]
        started_s = time.perf_counter()
        try:
            left_s = max(until_s - time.monotonic(), 0.001)
            answers = await link.call(commands, timeout_s=left_s)
        except StoreUnavailable as error:
            lost = self.lost(calls[indices[0]].partition, error)
            for index in indices:
                outcomes[index] = lost
            return
        finally:
            _timer(calls[indices[0]].script.name).observe(time.perf_counter() - started_s)
        again: list[int] = []
        for index, answer in zip(indices, answers, strict=True):
            try:
                outcomes[index] = self._read(calls[index], answer)
            except _REPEATED as error:
                if isinstance(error, StoreMoving) and not await_slot:
                    outcomes[index] = error
                else:
                    self._redirected(calls[index].partition, error)
                    again.append(index)
            except StoreError as error:
                outcomes[index] = error
        if again:
            await asyncio.gather(
                *[
                    self._ask_alone(calls, index, outcomes, until_s, await_slot=await_slot)
                    for index in again
                ]
            )

    async def _ask_alone(
        self,
        calls: Sequence[Call],
        index: int,
        outcomes: list[list[Reply] | StoreError | None],
        until_s: float,
        *,
        await_slot: bool,
    ) -> None:
        outcomes[index] = await self._alone(calls[index], until_s, await_slot=await_slot)

    async def _alone(
        self, call: Call, until_s: float, *, await_slot: bool
    ) -> list[Reply] | StoreError:
        try:
            left_s = until_s - time.monotonic()
            return await self.run(call, timeout_s=left_s, await_slot=await_slot)
        except StoreError as error:
            return error

    async def plain(
        self, partition: int, commands: Sequence[Command], *, timeout_s: float = CALL_TIMEOUT_S
    ) -> list[Reply]:
        """Read commands on one key each, of one partition, in one write. Raises StoreError.

        Unlike scripts they follow ASK: a key is on one of two nodes, and either answers for it.
        """
        until_s = time.monotonic() + timeout_s
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                link = await self.nodes.owner(partition)
                answers = await link.call(commands, timeout_s=until_s - time.monotonic())
                return [
                    await self._heard(partition, command, answer, until_s)
                    for command, answer in zip(commands, answers, strict=True)
                ]
            except (Elsewhere, Later, StoreMoving) as error:
                if _too_late(pause_s, until_s):
                    raise refusals.final(self.name, error) from None
                await self.heed(partition, error)
            except StoreUnavailable:
                self.nodes.doubt()
                raise
            await asyncio.sleep(pause_s)
            pause_s = min(PAUSE_MAX_S, pause_s * 2)

    async def _heard(
        self, partition: int, command: Command, answer: Reply, until_s: float
    ) -> Reply:
        if _is_ask(answer):
            # ASKING holds for the next command only: both leave in one write.
            asked = self.nodes.address(partition)
            link = self.nodes.link_to(redirected(str(answer), asked=asked))
            left_s = until_s - time.monotonic()
            _, answer = await link.call([["ASKING"], command], timeout_s=left_s)
        if isinstance(answer, StoreUnavailable):  # the connection was lost before it came
            raise answer
        if isinstance(answer, Exception):
            raise refusals.error_of(self.name, partition, answer)
        return answer

    async def heed(self, partition: int, refusal: StoreError) -> None:
        """Take what a refusal says of the map, before the call is repeated. Raises StoreError."""
        if self._redirected(partition, refusal):
            return
        if isinstance(refusal, Elsewhere):
            self.nodes.demoted(partition)
        if isinstance(refusal, Elsewhere | StoreMoving):
            await self.nodes.learn()
        elif isinstance(refusal, Later) and refusal.doubtful:
            self.nodes.doubt()

    def _redirected(self, partition: int, refusal: StoreError) -> bool:
        """Whether it names the node that is to be asked, which is then known as the owner."""
        if not isinstance(refusal, Elsewhere) or not refusal.to:
            return False
        self.nodes.moved(partition, redirected(refusal.to, asked=self.nodes.address(partition)))
        return True

    async def _once(self, call: Call, timeout_s: float, *, eager: bool = False) -> list[Reply]:
        left_s = max(timeout_s, 0.001)
        link = await self.nodes.owner(call.partition, timeout_s=left_s, eager=eager)

        async def ask(*command: Arg) -> list[Reply]:
            whole = [*command, *call.parts]
            (answer,) = await link.call([whole], timeout_s=left_s, eager=eager)
            return self._read(call, answer)

        try:
            return await ask("EVALSHA", call.script.sha)
        except ScriptUnknown:
            return await ask("EVAL", call.script.source)

    def lost(self, partition: int, error: StoreUnavailable) -> StoreUnavailable:
        """The node of a partition did not answer. Says so, and whether others may."""
        self.nodes.doubt()
        if error.partly or not self.nodes.others_answer(partition):
            return error
        cause, sent, failed = error.cause, error.sent, error.failed
        return StoreUnavailable(self.name, cause, sent=sent, failed=failed, partly=True)

    def _read(self, call: Call, answer: Reply) -> list[Reply]:
        if isinstance(answer, StoreUnavailable):  # the connection was lost before it came
            raise self.lost(call.partition, answer)
        if isinstance(answer, Exception):
            error = refusals.error_of(self.name, call.partition, answer)
            raise self._fullness.refused(call.partition) if isinstance(error, StoreFull) else error
        parts = replies.tagged(answer, call.script.name, *call.script.tags)
        if parts[0] == "moving":
            raise StoreMoving(self.name, call.partition)
        return parts


def _too_late(pause_s: float, until_s: float) -> bool:
    """Whether another try had less time than the pause before it.

    A call that is cut short leaves its outcome open, where the refusal before it was definite.
    """
    return time.monotonic() + 2 * pause_s >= until_s


def _is_ask(answer: Reply) -> bool:
    """Whether the key is on another node for now. To redis-py MOVED is a kind of that."""
    is_moved = isinstance(answer, redis_errors.MovedError)
    return isinstance(answer, redis_errors.AskError) and not is_moved
