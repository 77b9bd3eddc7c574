"""Ids that scripts publish on shard channels, one channel per partition."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection

from tradewind.errors import StoreError, StoreMoving, StoreUnavailable
from tradewind.store.link import read_reply
from tradewind.store.region_client import RegionClient

_RECONNECT_S = 1.0
# A subscription that says nothing is asked for a sign of life: lost within 10 s, as other links.
SILENCE_S, ANSWER_S = 5.0, 4.0


async def listen(client: RegionClient, channels: Sequence[str]) -> AsyncIterator[str]:
    """What is published on `channels`, by partition. An empty string: some may have been missed.

    One connection per node, made again after a loss; each begins with an empty string.
    """
    news: asyncio.Queue[str] = asyncio.Queue()
    listening = asyncio.create_task(_Listener(client, channels, news).run())
    try:
        while True:
            yield await news.get()
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


class _Listener:
    """Feeds one queue from one kind of channel."""

    def __init__(
        self, client: RegionClient, channels: Sequence[str], news: "asyncio.Queue[str]"
    ) -> None:
        self._client, self._channels, self._news = client, channels, news

    async def run(self) -> None:
        """Listen, for ever."""
        nodes = self._client.nodes
        while True:
            try:
                await nodes.known()
                async with asyncio.TaskGroup() as group:
                    for partitions in nodes.owned_together().values():
                        group.create_task(self._listen(partitions))
            except* (OSError, StoreError, redis_errors.RedisError):
                self._news.put_nowait("")
            await asyncio.sleep(_RECONNECT_S)
            # Perhaps a slot has moved; without an answer the old map is as good as any.
            with contextlib.suppress(StoreError):
                await nodes.learn()

    async def _listen(self, partitions: list[int]) -> None:
        """Listen on one node until the connection is lost or a channel has moved: then raise."""
        connection = self._client.nodes.connection(partitions[0])
        try:
            await connection.connect()
            for partition in partitions:  # a Cluster takes channels of one slot at a time
                await connection.send_command("SSUBSCRIBE", self._channels[partition])
            subscribed = 0
            while True:
                heard = await self._hear(connection)
                if heard[0] == b"smessage":
                    self._news.put_nowait(heard[2].decode())
                elif heard[0] == b"ssubscribe":
                    subscribed += 1
                    if subscribed == len(partitions):
                        self._news.put_nowait("")  # what came before this moment was not heard
                elif heard[0] == b"sunsubscribe":
                    raise StoreMoving(self._client.name, partitions[0])
        finally:
            await connection.disconnect(nowait=True)

    async def _hear(self, connection: AbstractConnection) -> list[bytes]:
        """The next message; asks after a silent connection whether it still lives."""
        hearing = asyncio.ensure_future(read_reply(connection))
        try:
            done, _ = await asyncio.wait([hearing], timeout=SILENCE_S)
            if not done:
                await connection.send_command("PING")
                done, _ = await asyncio.wait([hearing], timeout=ANSWER_S)
            if not done:
                raise StoreUnavailable(self._client.name, "no answer in time", sent=True)
            return hearing.result()
        finally:
            hearing.cancel()
