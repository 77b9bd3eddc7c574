"""The floor of a queue on Redis: one script that stores, one that finishes and claims, no more.

A record, a list of ready ids, a lease in a sorted set and a result for an hour: no fence, no
states, no retries, no time limit, no second partition; blocking sockets and one thread. What a
product adds to this is its price.

    python -m bench.floors.loop produce --how bulk|paced --n N [--rate R]   prints one JSON object
    python -m bench.floors.loop worker                                      until it is killed

The command line and the environment are those of the scripts of the peers' harness.
"""

import argparse
import json
import os
import socket
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import hiredis

from bench.drive import TEXT
from bench.rig.records import Recorder

URL_VARIABLE = "BENCH_URL"

_BATCH = 100  # tasks a call that stores
_OUTSTANDING = 4  # such calls
_CLAIM = 64  # tasks a call that claims
_LEASE_S = 30

# KEYS: ready, wake. ARGV: id, body, id, body, ...
_STORE = """
for at = 1, #ARGV, 2 do
  redis.call('HSET', 'task:' .. ARGV[at], 'body', ARGV[at + 1], 'state', 'ready')
  redis.call('LPUSH', KEYS[1], ARGV[at])
end
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('LPUSH', KEYS[2], 1) end
return 1
"""

# KEYS: ready, leases. ARGV: how many, lease end, id, result, id, result, ... of what is finished
_STEP = """
for at = 3, #ARGV, 2 do
  if redis.call('ZREM', KEYS[2], ARGV[at]) == 1 then
    redis.call('DEL', 'task:' .. ARGV[at])
    redis.call('SET', 'result:' .. ARGV[at], ARGV[at + 1], 'EX', 3600)
  end
end
local claimed = {}
for _, id in ipairs(redis.call('RPOP', KEYS[1], ARGV[1]) or {}) do
  redis.call('ZADD', KEYS[2], ARGV[2], id)
  redis.call('HSET', 'task:' .. id, 'state', 'running')
  claimed[#claimed + 1] = id
  claimed[#claimed + 1] = redis.call('HGET', 'task:' .. id, 'body')
end
return claimed
"""


# Its stub knows only tuples of one.
_pack: Callable[[Sequence[str | bytes | int]], bytes] = getattr(hiredis, "pack_command")  # noqa: B009


class _Wire:
    """One blocking connection."""

    def __init__(self) -> None:
        at = urlsplit(os.environ[URL_VARIABLE])
        self._socket = socket.create_connection((at.hostname, at.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader: Any = hiredis.Reader()

    def send(self, *parts: str | bytes | int) -> None:
        self._socket.sendall(_pack(parts))

    def reply(self) -> Any:
        while (answer := self._reader.gets()) is False:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._reader.feed(data)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask(self, *parts: str | bytes | int) -> Any:
        self.send(*parts)
        return self.reply()


def _body(submitted_s: float) -> str:
    return json.dumps({"task": "noop", "text": TEXT, "at": submitted_s})


def _produce(how: str, n: int, rate: float) -> dict[str, float]:
    wire = _Wire()
    script: bytes = wire.ask("SCRIPT", "LOAD", _STORE)
    began_s, cpu_s = time.monotonic(), time.process_time()
    size = _BATCH if how == "bulk" else 1
    sent = 0
    for first in range(0, n, size):
        if how == "paced":
            time.sleep(max(0.0, began_s + first / rate - time.monotonic()))
        tasks: list[str] = []
        for _ in range(min(size, n - first)):
            tasks += (uuid.uuid4().hex, _body(time.monotonic() if how == "paced" else 0.0))
        wire.send("EVALSHA", script, 2, "ready", "wake", *tasks)
        sent += 1
        if how == "paced" or sent == _OUTSTANDING:
            wire.reply()
            sent -= 1
    for _ in range(sent):
        wire.reply()
    return {
        "n": n,
        "seconds": time.monotonic() - began_s,
        "cpu_s": time.process_time() - cpu_s,
    }


def _work() -> None:
    wire, record = _Wire(), Recorder()
    script: bytes = wire.ask("SCRIPT", "LOAD", _STEP)
    finished: list[str | bytes] = []
    while True:
        until = int(time.monotonic()) + _LEASE_S
        claimed = wire.ask("EVALSHA", script, 2, "ready", "leases", _CLAIM, until, *finished)
        finished = []
        for at in range(0, len(claimed), 2):
            record(json.loads(claimed[at + 1])["at"])
            finished += (claimed[at], '{"ok": true}')
        if not claimed:
            wire.ask("BLPOP", "wake", 1)


def main() -> int:
    """Produce, or work."""
    parser = argparse.ArgumentParser(prog="python -m bench.floors.loop", description=__doc__)
    parser.add_argument("verb", choices=("produce", "worker"))
    parser.add_argument("--how", choices=("bulk", "paced"), default="bulk")
    parser.add_argument("--n", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=50.0)
    given = parser.parse_args()
    if given.verb == "worker":
        _work()
    print(json.dumps(_produce(given.how, given.n, given.rate)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
