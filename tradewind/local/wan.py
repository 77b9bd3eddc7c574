"""Distance on one machine: a TCP proxy that delays every byte, as its own process.

    python -m tradewind.local.wan SPEC.json

SPEC.json: {"links": [{"listen_port": 1, "target_host": "127.0.0.1", "target_port": 2,
"delay_ms": 44.5}, ...]}, the delay one way. Bytes keep their order and the link its throughput:
chunks wait side by side for their due time, not one after the other.

Links can get worse and better while they are in use: change SPEC.json and send SIGHUP. What a link
may be besides far is said by `Link`; ports and targets stay. A file that cannot be used changes
nothing, and standard error says why. In a process that runs already, `WanProxy` does the same.
"""

import asyncio
import contextlib
import functools
import json
import random
import signal
import struct
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET
from typing import Literal, get_args

LOOPBACK = "127.0.0.1"  # not imported: this file runs by path, alone

# Bytes under way in one direction of one connection before the sender is held back: like a TCP
# window, about 40 MB/s at 100 ms.
QUEUE_LIMIT_BYTES = 4 * 1024 * 1024

_CHUNK_BYTES = 64 * 1024
_WRONG_USAGE = 2


# Between a lost answer and the end of its connection: time for more requests to be carried out.
LOST_FOR_S = 1.0

Reach = Literal["ok", "silent", "silent-there", "silent-back", "refuses", "resets"]
Direction = Literal["there", "back"]  # to the target, and from it


@dataclass(frozen=True, slots=True)
class Link:
    """One listening port, how far away its target shall seem (one way), and how sound the way is.

    `delay_ms`, and up to `jitter_ms` more for each chunk, a chunk being about one call or one
    answer. They never overtake one another.

    `reach`: of a link that is `silent` nothing arrives, either way; `silent-there` loses only what
    goes to the target, `silent-back` only what comes from it, and none of the three makes a new
    connection, which takes both ways. What was sent meanwhile comes late, once the link is `ok`
    again, as TCP sends lost packets anew, also if its sender has closed the connection since.
    With `forgets` it never comes, nor anything else on the connections of that time, and nobody is
    told: so it is where a firewall between the ends has lost its table. A link that `refuses` is
    cut off, and its port closed; one that `resets` is cut off, and so is whoever connects.

    `breaks` is the share of chunks at which the connection breaks: so some calls fail, and nobody
    knows whether they arrived. `loses` is the share of answers that get lost, with all that follows
    them on their connection: what is asked on it is still carried out, until it breaks LOST_FOR_S
    later.
    """

    listen_port: int
    target_host: str
    target_port: int
    delay_ms: float
    reach: Reach = "ok"
    breaks: float = 0.0
    jitter_ms: float = 0.0
    loses: float = 0.0
    forgets: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for what no link can be."""
        if self.reach not in get_args(Reach):
            raise ValueError(f"reach is {self.reach!r}: one of {', '.join(get_args(Reach))}")
        for name, share in {"breaks": self.breaks, "loses": self.loses}.items():
            if not 0 <= share <= 1:
                raise ValueError(f"{name} is {share!r}: a share, 0 to 1")
        for name, time_ms in {"delay_ms": self.delay_ms, "jitter_ms": self.jitter_ms}.items():
            if not time_ms >= 0:
                raise ValueError(f"{name} is {time_ms!r}: 0 or more")

    def carries(self, direction: Direction) -> bool:
        """Whether what is sent that way arrives."""
        return self.reach not in {"silent", f"silent-{direction}"}

    @property
    def takes(self) -> bool:
        """Whether whoever connects may stay."""
        return self.reach not in {"refuses", "resets"}


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
        self.forgotten = 0  # how often all connections so far were
        self._carries: dict[Direction, asyncio.Event] = {
            "there": asyncio.Event(),
            "back": asyncio.Event(),
        }
        self.become(link)

    def delay_s(self) -> float:
        """How long the next chunk is under way."""
        return (self.link.delay_ms + self.link.jitter_ms * random.random()) / 1000

    def become(self, link: Link) -> None:
        """Be so from now on; what is under way keeps the time at which it is due."""
        if self.link.forgets and not all(event.is_set() for event in self._carries.values()):
            self.forgotten += 1
        self.link = link
        for direction, event in self._carries.items():
            if link.carries(direction):
                event.set()
            else:
                event.clear()

    async def passes(self, direction: Direction, since: int) -> None:
        """Wait out a silence, on a connection made when `forgotten` was `since`."""
        await self._carries[direction].wait()
        if since != self.forgotten:
            await asyncio.Event().wait()  # until all is cut

    async def arrives(self, direction: Direction, since: int) -> None:
        """Return once what is due now arrives.

        Raises ConnectionResetError if it never does, and the ends are told.
        """
        await self.passes(direction, since)
        if self._strikes(self.link.breaks):
            raise ConnectionResetError
        if direction == "back" and self._strikes(self.link.loses):
            await asyncio.sleep(LOST_FOR_S)
            raise ConnectionResetError

    async def cut(self) -> None:
        """Cut every connection."""
        for connection in self.connections:
            connection.cancel()
        await asyncio.gather(*self.connections, return_exceptions=True)

    @staticmethod
    def _strikes(share: float) -> bool:
        return share > 0 and random.random() < share


class _Line:
    """Bytes under way in one direction of one connection."""

    def __init__(self, way: _Way, direction: Direction, since: int) -> None:
        self._way = way
        self._direction: Direction = direction
        self._since = since
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
            self._chunks.append((self._loop.time() + self._way.delay_s(), chunk))
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
            await self._way.arrives(self._direction, self._since)
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
    """Links of one machine, in the event loop of whoever starts it, from `start()` to `stop()`."""

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
            elif not link.takes:
                await way.cut()
        for link in links:  # those that are cut are so by now, whatever becomes of the ports
            await self._open(self._ways[link.listen_port])

    async def stop(self) -> None:
        """Close every port and cut every connection. May be called twice."""
        for way in self._ways.values():
            await _close(way)

    async def _open(self, way: _Way) -> None:
        if way.server is None and way.link.reach != "refuses":
            accept = functools.partial(self._accept, way)
            port = way.link.listen_port
            way.server = await asyncio.start_server(accept, LOOPBACK, port, limit=_CHUNK_BYTES)

    async def _accept(
        self, way: _Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if not way.link.takes:
            _reset(writer)
            return
        connection = asyncio.ensure_future(_join(way, reader, writer))
        way.connections.add(connection)
        connection.add_done_callback(way.connections.discard)
        # Waited for, not awaited: streams report a cancelled callback as an error (3.11).
        await asyncio.wait([connection])
        if not writer.is_closing():
            _reset(writer)  # it was cut off before its task began


async def stop_listening(server: asyncio.Server) -> None:
    """Close its ports; every connection that it has accepted has its transport by then.

    One that is closed between the two drops the connection with its socket open (asyncio of 3.11:
    an assertion in Server._attach), and whoever is at the other end waits for ever.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    await asyncio.sleep(0)
    server.close()


async def _close(way: _Way) -> None:
    if way.server is not None:
        server, way.server = way.server, None
        await stop_listening(server)
    await way.cut()


def _target(link: Link) -> tuple[str, int]:
    return link.target_host, link.target_port


async def _join(way: _Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    far_writer: asyncio.StreamWriter | None = None
    since = way.forgotten
    is_over = False
    try:
        # The handshake over the real distance: the caller's own connect took no time.
        await asyncio.sleep(way.delay_s())
        await way.arrives("there", since)
        await asyncio.sleep(way.delay_s())
        await way.passes("back", since)
        target_host, target_port = _target(way.link)
        far_reader, far_writer = await asyncio.open_connection(target_host, target_port)
        async with asyncio.TaskGroup() as group:
            group.create_task(_Line(way, "there", since).carry(reader, far_writer))
            group.create_task(_Line(way, "back", since).carry(far_reader, writer))
        is_over = True
    except* OSError:
        pass  # either end broke: the other one is told, as it would be over a network
    finally:
        for each in (writer, far_writer):
            if each is not None and is_over:
                each.close()
            elif each is not None:
                _reset(each)


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):  # it has been closed
        socket = writer.get_extra_info("socket")
        socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))  # no FIN, a RST
    writer.transport.abort()


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
