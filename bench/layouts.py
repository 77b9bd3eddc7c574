"""Layouts of a pending task and of the ready queue: bytes, and Redis CPU of a task's life.

    python -m bench.layouts [tasks]

Each is the least that can enqueue, claim and finish 200-byte tasks in batches of 64, without our
guarantees, so that only the layout differs: docs/decisions/0007 and 0008 hold the figures.
TRADEWIND_REDIS_SERVER names another server.
"""

import secrets
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import redis

from tradewind.local.scratch import redis_process

BATCH, SIZE, WORKER = 64, 201, "w-eu-0123456789"
_HEAD = "local now = redis.call('TIME') local ms = now[1] * 1000 + math.floor(now[2] / 1000)\n"
_LEASE = "redis.call('ZADD', KEYS[2], ms + 30000, id)"
_LIST = "redis.call('LPOP', KEYS[1], ARGV[1])"
_HASH = """
for i = 2, #ARGV, 2 do
  redis.call('HSET', 't:' .. ARGV[i], 's', 'P', 'c', 12, 'q', 'default', 'n', 'noop', {fields})
  {ready}
end"""
_TAKE = """
local out = {{}}
for _, ticket in ipairs({pop} or {{}}) do
  local id = string.sub(ticket, 1, 26)
  out[#out + 1] = {{ id, redis.call('HMGET', 't:' .. id, {names}) }}
  redis.call('HSET', 't:' .. id, 's', 'R', 'tk', ms * 1000, 'at', 1, 'wk', '{worker}')
  {lease}
end
return out"""
_END = """
for i = 1, #ARGV do
  redis.call('HDEL', 't:' .. ARGV[i], 'wk')
  redis.call('HSET', 't:' .. ARGV[i], 's', 'C', 'fa', ms, 'rs', 'null')
  redis.call('PEXPIRE', 't:' .. ARGV[i], 86400000)
  redis.call('ZREM', KEYS[2], ARGV[i])
end"""
_PUSH = "redis.call('RPUSH', KEYS[1], ARGV[i] .. ':1:' .. ms)"


@dataclass(frozen=True)
class Layout:
    """Scripts: KEYS[1] the ready queue, KEYS[2] the leases."""

    enqueue: str  # ARGV[1] unused, then id and spec of each task
    claim: str  # ARGV[1] how many; returns {id, ...} of each
    finish: str  # ARGV: ids
    setup: tuple[str, ...] = ()


def _hash(
    fields: str,
    names: str,
    ready: str = _PUSH,
    pop: str = _LIST,
    setup: tuple[str, ...] = (),
) -> Layout:
    return Layout(
        _HEAD + _HASH.format(fields=fields, ready=ready),
        _HEAD + _TAKE.format(names=names, pop=pop, lease=_LEASE, worker=WORKER),
        _HEAD + _END,
        setup,
    )


_PIECES = ", ".join(
    f"'{n}', string.sub(ARGV[i + 1], {63 * n + 1}, {63 * n + 63})" for n in range(4)
)
_XADD = "redis.call('XADD', KEYS[1], '*', 't', ARGV[i])"
_XREAD = """(function()
  local read = redis.call('XREADGROUP', 'GROUP', 'g', 'w', 'COUNT', ARGV[1],
    'STREAMS', KEYS[1], '>')
  local ids = {}
  for _, entry in ipairs(read and read[1][2] or {}) do
    ids[#ids + 1] = entry[2][2]
    redis.call('XACK', KEYS[1], 'g', entry[1])
    redis.call('XDEL', KEYS[1], entry[1])
  end
  return ids
end)()"""
_GROUP = ("XGROUP", "CREATE", "ready", "g", "0", "MKSTREAM")
_POLLED = """(function()
  local ids = redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1)
  if #ids > 0 then redis.call('ZREM', KEYS[1], unpack(ids)) end
  return ids
end)()"""
_FULL, _NAMES = "'p', ARGV[i + 1]", "'s', 'q', 'n', 'c', 'p'"

STRING = Layout(
    _HEAD
    + """
for i = 2, #ARGV, 2 do
  redis.call('SET', 't:' .. ARGV[i], 'P1default noop 0000000000000012' .. ARGV[i + 1])
  redis.call('RPUSH', KEYS[1], ARGV[i] .. ':1:' .. ms)
end""",
    _HEAD
    + f"""
local out = {{}}
for _, ticket in ipairs(redis.call('LPOP', KEYS[1], ARGV[1]) or {{}}) do
  local id = string.sub(ticket, 1, 26)
  out[#out + 1] = {{ id, redis.call('GET', 't:' .. id) }}
  redis.call('SETRANGE', 't:' .. id, 0, 'R2')
  redis.call('HSET', 'r:' .. id, 'tk', ms * 1000, 'at', 1, 'wk', '{WORKER}')
  {_LEASE}
end
return out""",
    _HEAD
    + """
for i = 1, #ARGV do
  redis.call('SETRANGE', 't:' .. ARGV[i], 0, 'C3')
  redis.call('HDEL', 'r:' .. ARGV[i], 'wk')
  redis.call('HSET', 'r:' .. ARGV[i], 'fa', ms, 'rs', 'null')
  redis.call('PEXPIRE', 't:' .. ARGV[i], 86400000)
  redis.call('PEXPIRE', 'r:' .. ARGV[i], 86400000)
  redis.call('ZREM', KEYS[2], ARGV[i])
end""",
)
# The task waits in the stream alone; its record begins with the claim. Nobody finds it before.
STREAM = Layout(
    _HEAD
    + """
for i = 2, #ARGV, 2 do
  redis.call('XADD', KEYS[1], '*', 't', ARGV[i], 'q', 'default', 'n', 'noop', 'p', ARGV[i + 1])
end""",
    _HEAD
    + f"""
local out = {{}}
local read = redis.call('XREADGROUP', 'GROUP', 'g', 'w', 'COUNT', ARGV[1], 'STREAMS', KEYS[1], '>')
for _, entry in ipairs(read and read[1][2] or {{}}) do
  local f = entry[2]
  local id = f[2]
  redis.call('HSET', 't:' .. id, 's', 'R', 'q', f[4], 'n', f[6], 'p', f[8], 'tk', ms * 1000,
    'at', 1, 'wk', '{WORKER}')
  {_LEASE}
  redis.call('XACK', KEYS[1], 'g', entry[1])
  redis.call('XDEL', KEYS[1], entry[1])
  out[#out + 1] = {{ id, f[8] }}
end
return out""",
    _HEAD + _END,
    _GROUP,
)
LAYOUTS = {
    "hash, packed value; list": _hash(_FULL, _NAMES),
    "hash, pieces of 63 bytes; list": _hash(_PIECES, "'s', 'q', 'n', 'c', '0', '1', '2', '3'"),
    "string with a header, hash once claimed; list": STRING,
    "stream entry, hash once claimed": STREAM,
    "hash, packed value; stream of ids": _hash(_FULL, _NAMES, _XADD, _XREAD, _GROUP),
    "hash, packed value; sorted set, polled": _hash(
        _FULL,
        _NAMES,
        "redis.call('ZADD', KEYS[1], ms, ARGV[i])",
        _POLLED,
    ),
}


def measure(layout: Layout, tasks: int, *, small: bool) -> tuple[float, ...]:
    """Bytes a pending and a finished task; us of Redis CPU: enqueue, claim, finish, empty claim."""
    with (
        tempfile.TemporaryDirectory() as home,
        redis_process(Path(home)) as server,
        redis.Redis(port=server.port) as client,
    ):
        raw = cast("Any", client)
        raw.config_set("hash-max-listpack-value", 64 if small else 1024)
        if layout.setup:
            raw.execute_command(*layout.setup)
        steps = [raw.register_script(getattr(layout, s)) for s in ("enqueue", "claim", "finish")]
        ids = [f"01kb{n:022d}" for n in range(tasks)]
        spec = secrets.token_bytes(SIZE)

        def cost(script: Any, batches: list[list[Any]], per: int) -> float:
            began = _cpu_s(raw)
            for start in range(0, len(batches), 8):
                with raw.pipeline(transaction=False) as pipe:
                    for args in batches[start : start + 8]:
                        script(keys=["ready", "leases"], args=args, client=pipe)
                    pipe.execute()
            return (_cpu_s(raw) - began) / per * 1e6

        groups = [ids[n : n + BATCH] for n in range(0, tasks, BATCH)]
        before = raw.info("memory")["used_memory"]
        pairs = [["", *(part for i in group for part in (i, spec))] for group in groups]
        enqueue = cost(steps[0], pairs, tasks)
        pending = (raw.info("memory")["used_memory"] - before) / tasks
        claim = cost(steps[1], [[BATCH]] * len(groups), tasks)
        finish = cost(steps[2], cast("list[list[Any]]", groups), tasks)
        finished = (raw.info("memory")["used_memory"] - before) / tasks
        empty = cost(steps[1], [[BATCH]] * 4000, 4000)
        return pending, finished, enqueue, claim, finish, empty


def _cpu_s(raw: Any) -> float:
    found = raw.info("cpu")
    return float(found["used_cpu_user"] + found["used_cpu_sys"])


def main() -> None:
    """A row of the table for each layout: medians of three runs."""
    tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    began = time.monotonic()
    out = sys.stdout
    out.write(
        "| layout | pending B | finished B | enqueue us | claim us | finish us | empty us |\n"
    )
    for small in (False, True):
        out.write(f"hash-max-listpack-value {64 if small else 1024}\n")
        for name, layout in LAYOUTS.items():
            runs = [measure(layout, tasks, small=small) for _ in range(1 if small else 3)]
            middle = [sorted(column)[len(runs) // 2] for column in zip(*runs, strict=True)]
            bytes_, us = middle[:2], middle[2:]
            cells = [*(f"{b:.0f}" for b in bytes_), *(f"{u:.1f}" for u in us)]
            out.write(f"| {name} | {' | '.join(cells)} |\n")
            out.flush()
    out.write(f"{time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    main()
