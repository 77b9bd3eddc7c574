"""All that a Redis holds of one partition."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.machine.clock import KEY
from tests.scripts.world import keys_at
from tradewind.store.letters import word

Fields = Mapping[str, str]
PREFIX = keys_at().prefix


@dataclass(frozen=True, slots=True)
class Dump:
    """All keys of one region's partition, without its prefix."""

    keys: Mapping[str, Any]
    lasting: frozenset[str]  # those without TTL

    @property
    def records(self) -> Mapping[str, Fields]:
        """Records by task id, with what is not stored where it is the default."""
        return {
            key[2:]: {"ep": "1", "pr": "1", "rv": "1", **fields, "s": word(fields["s"].encode())}
            for key, fields in self.keys.items()
            if key.startswith("t:")
        }

    def score(self, index: str, task_id: str) -> float | None:
        """The task's place in a sorted set."""
        return dict(self.keys.get(index, ())).get(task_id)

    @property
    def tickets(self) -> set[str]:
        """Tickets, ready or parked, without their times."""
        return {
            ":".join(ticket.split(":")[:2])
            for key, value in self.keys.items()
            if key.startswith(("q:", "parked:"))
            for ticket in value
        }


def dump(raw: Any) -> Dump:
    """Look at a Redis, in three round trips. Identities, which stay for ever, are left out."""
    names = sorted(key for key in raw.scan_iter(count=1000) if not key.endswith((KEY, ":identity")))
    readers = {"hash": "hgetall", "list": "lrange", "zset": "zrange", "string": "get"}
    more: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "list": ((0, -1), {}),
        "zset": ((0, -1), {"withscores": True}),
    }
    with raw.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.type(name)
            pipe.ttl(name)
        found = pipe.execute()
        # Short lives may end between two of our own calls: then the kind is "none", or no value.
        kinds = {n: k for n, k in zip(names, found[::2], strict=True) if k in readers}
        for name, kind in kinds.items():
            args, kwargs = more.get(kind, ((), {}))
            getattr(pipe, readers[kind])(name, *args, **kwargs)
        values = pipe.execute()
    lasting = (n for n, left in zip(names, found[1::2], strict=True) if left == -1)
    return Dump(
        {n.removeprefix(PREFIX): value for n, value in zip(kinds, values, strict=True) if value},
        frozenset(n.removeprefix(PREFIX) for n in lasting),
    )
