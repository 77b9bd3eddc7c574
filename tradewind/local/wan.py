"""Distance on one machine: a TCP proxy that delays every byte, as its own process.

    python -m tradewind.local.wan SPEC.json

SPEC.json: {"links": [{"listen_port": 1, "target_host": "127.0.0.1", "target_port": 2,
"delay_ms": 44.5}, ...]}, the delay one way. Bytes keep their order and the link its throughput:
chunks wait side by side for their due time, not one after the other.

Links can get worse and better while they are in use: change SPEC.json and send SIGHUP. What a link
may be besides far is said by `Link`; ports and targets stay. A file that cannot be used changes
nothing, and standard error says why.
"""

import asyncio
import functools
import json
import random
import signal
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

LOOPBACK = "127.0.0.1"  # not imported: this file runs by path, alone

# Bytes under way in one direction of one connection before the sender is held back: like a TCP
# window, about 40 MB/s at 100 ms.
QUEUE_LIMIT_BYTES = 4 * 1024 * 1024

_CHUNK_BYTES = 64 * 1024
_WRONG_USAGE = 2


Reach = Literal["ok", "silent", "refuses"]


@dataclass(frozen=True, slots=True)
class Link:
    """One listening port, how far away its target shall seem (one way), and how sound the way is.

    `reach`: of a link that is `silent` nothing arrives, either way; what was sent meanwhile comes
    late, once it is `ok` again, as TCP sends lost packets anew. One that `refuses` is cut off, and
    takes no connection. `breaks` is the share of chunks at which the connection breaks, a chunk
    being about one call or one answer: so some calls fail, and nobody knows whether they arrived.
    """

    listen_port: int
    target_host: str
    target_port: int
    delay_ms: float
    reach: Reach = "ok"
    breaks: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for what no link can be."""
        if self.reach not in get_args(Reach):
            raise ValueError(f"reach is {self.reach!r}: one of {', '.join(get_args(Reach))}")
        if not 0 <= self.breaks <= 1:
            raise ValueError(f"breaks is {self.breaks!r}: a share, 0 to 1")


def dump(links: Sequence[Link]) -> str:
    """Write links as SPEC.json."""
    return json.dumps({"links": [asdict(link) for link in links]}, indent=2)


def parse(text: str) -> list[Link]:
    """Read SPEC.json. Raises ValueError, KeyError or TypeError if it is not one."""
    return [Link(**link) for link in json.loads(text)["links"]]


def read(spec: Path) -> list[Link]:
    """Read it from a file. Raises OSError, and what `parse` raises."""
    return parse(spec.read_text(encoding="utf-8"))


class _Way:
    """A link as it is now, and whoever is connected through it."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.server: asyncio.Server | None = None
        self.connections: set[asyncio.Task[None]] = set()
        self._passes = asyncio.Event()
        self.become(link)

    @property
    def delay_s(self) -> float:
        return self.link.delay_ms / 1000

    def become(self, link: Link) -> None:
        """Be so from now on; what is under way keeps the time at which it is due."""
        self.link = link
        if link.reach == "silent":
            self._passes.clear()
        else:
            self._passes.set()

    async def arrives(self) -> None:
        """Return once what is due now arrives. Raises ConnectionResetError if it never does."""
        await self._passes.wait()
        if self.link.breaks and random.random() < self.link.breaks:
            raise ConnectionResetError

    async def cut(self) -> None:
        """Cut every connection."""
        for connection in self.connections:
            connection.cancel()
        await asyncio.gather(*self.connections, return_exceptions=True)


class _Line:
    """Bytes under way in one direction."""

    def __init__(self, way: _Way) -> None:
        self._way = way
        self._loop = asyncio.get_running_loop()
        self._chunks: deque[tuple[float, bytes]] = deque()
        self._queued_bytes = 0
        self._changed = asyncio.Event()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy until the end of input, then pass the half close on."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._fill(reader))
            group.create_task(self._empty(writer))

    async def _fill(self, reader: asyncio.StreamReader) -> None:
        while True:
            chunk = await reader.read(_CHUNK_BYTES)
            self._chunks.append((self._loop.time() + self._way.delay_s, chunk))
            self._queued_bytes += len(chunk)
            self._changed.set()
            if not chunk:
                return
            while self._queued_bytes > QUEUE_LIMIT_BYTES:
                await self._wait()

    async def _empty(self, writer: asyncio.StreamWriter) -> None:
        while True:
            while not self._chunks:
                await self._wait()
            due, chunk = self._chunks.popleft()
            await asyncio.sleep(due - self._loop.time())
            await self._way.arrives()
            if not chunk:
                writer.write_eof()
                return
            writer.write(chunk)
            await writer.drain()
            self._queued_bytes -= len(chunk)
            self._changed.set()

    async def _wait(self) -> None:
        # Both ends may wait here, never at once: one for bytes, one for room.
        self._changed.clear()
        await self._changed.wait()


class WanProxy:
    """All links of one machine. Listens between `start()` and `stop()`."""

    def __init__(self, links: Sequence[Link]) -> None:
        """Take the plan; nothing listens before `start()`."""
        self._ways = {link.listen_port: _Way(link) for link in links}

    async def start(self) -> None:
        """Listen on every link's port. Raises OSError if one is taken."""
        for way in self._ways.values():
            await self._open(way)

    async def change(self, links: Sequence[Link]) -> None:
        """Let links be so from now on; those that are not named stay as they are.

        Raises ValueError if one leads elsewhere than before, and OSError if the port of one that
        refused was taken meanwhile.
        """
        for link in links:
            way = self._ways.get(link.listen_port)
            if way is None or _target(way.link) != _target(link):
                raise ValueError(f"no link from port {link.listen_port} to there: start anew")
        for link in links:
            way = self._ways[link.listen_port]
            way.become(link)
            if link.reach == "refuses":
                await _close(way)
            elif way.server is None:
                await self._open(way)

    async def stop(self) -> None:
        """Close every port and cut every connection. May be called twice."""
        for way in self._ways.values():
            await _close(way)

    async def _open(self, way: _Way) -> None:
        if way.link.reach != "refuses":
            accept = functools.partial(self._accept, way)
            port = way.link.listen_port
            way.server = await asyncio.start_server(accept, LOOPBACK, port, limit=_CHUNK_BYTES)

    async def _accept(
        self, way: _Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if way.link.reach == "refuses":  # it came just before the port was closed
            writer.transport.abort()
            return
        connection = asyncio.ensure_future(_join(way, reader, writer))
        way.connections.add(connection)
        connection.add_done_callback(way.connections.discard)
        # Waited for, not awaited: streams report a cancelled callback as an error (3.11).
        await asyncio.wait([connection])
        writer.close()  # one that was cut off before its task began, too


async def _close(way: _Way) -> None:
    if way.server is not None:
        way.server.close()
        way.server = None
    await way.cut()


def _target(link: Link) -> tuple[str, int]:
    return link.target_host, link.target_port


async def _join(way: _Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    far_writer: asyncio.StreamWriter | None = None
    try:
        # The handshake over the real distance: the caller's own connect took no time.
        await asyncio.sleep(2 * way.delay_s)
        await way.arrives()
        target_host, target_port = _target(way.link)
        far_reader, far_writer = await asyncio.open_connection(target_host, target_port)
        async with asyncio.TaskGroup() as group:
            group.create_task(_Line(way).carry(reader, far_writer))
            group.create_task(_Line(way).carry(far_reader, writer))
    except* OSError:
        # Either end broke: the other one sees a cut connection, as it would over a network.
        writer.transport.abort()
        if far_writer is not None:
            far_writer.transport.abort()
    finally:
        if far_writer is not None:
            far_writer.close()


async def serve(spec: Path) -> None:
    """Run the proxy until SIGTERM or SIGINT; read `spec` again on SIGHUP.

    Raises OSError if a port is taken, and what `read` raises.
    """
    ended, told = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, told.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # see tradewind.startup
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    proxy = WanProxy(read(spec))
    following = asyncio.create_task(_follow(proxy, spec, told))
    try:
        await proxy.start()
        await ended.wait()
    finally:
        following.cancel()
        await proxy.stop()


async def _follow(proxy: WanProxy, spec: Path, told: asyncio.Event) -> None:
    while True:
        await told.wait()
        told.clear()
        try:
            await proxy.change(read(spec))
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.stderr.write(f"{spec}: {error}: the links stay as they are\n")


def main(args: Sequence[str]) -> int:
    """Run the command line: one argument, the path of SPEC.json."""
    if len(args) != 1:
        sys.stderr.write("usage: python -m tradewind.local.wan SPEC.json\n")
        return _WRONG_USAGE
    try:
        read(Path(args[0]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"{args[0]} lists no links ({error}): see `pydoc tradewind.local.wan`\n")
        return _WRONG_USAGE
    try:
        asyncio.run(serve(Path(args[0])))
    except OSError as error:
        sys.stderr.write(f"cannot listen: {error.strerror}: choose other ports in {args[0]}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
