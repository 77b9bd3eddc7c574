"""What a Redis node can do for the writes it has answered, by what it says of itself. Pure.

What is promised to whom is docs/durability.md. `fsync`: WAITAOF needs 7.2 and a log that the node
itself writes to disk; with `appendfsync always` an answer comes after the write to disk, of any
version. `replica`: WAIT counts replicas, so there has to be one that the node itself counts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from tradewind.fleet import Durability
from tradewind.store.link import Command, Reply

#: Whom a seal is for: a move takes all the safety that the node has, a task what its queue asks.
Purpose = Literal["move", "fsync", "replica"]

QUESTIONS: Final[Sequence[Command]] = (
    *(["INFO", part] for part in ("replication", "persistence", "server")),
    ["CONFIG", "GET", "appendfsync"],  # a login may not be allowed to ask
)
_WAITAOF_SINCE: Final = (7, 2)
_REPLICA: Final = re.compile(r"slave\d+")
_ONLINE: Final = "state=online"  # it has taken its first copy, and follows


@dataclass(frozen=True, slots=True)
class Facts:
    """What a node says."""

    replicas: int  # that follow, no further behind than min-replicas-max-lag where that is set
    logs: bool  # it has an append-only file
    syncs: str  # appendfsync: always, everysec or no; empty: it does not say
    version: tuple[int, ...]

    def lacks(self, durability: Durability) -> str:
        """Say why it cannot serve a queue of this durability; empty if it can."""
        if durability == "replica" and not self.replicas:
            return "no replica is connected"
        if durability == "fsync" and not self.logs:
            return "it keeps no append-only file (appendonly no)"
        if durability == "fsync" and not self._is_told_of_disk:
            if self.syncs == "no":
                return "it leaves its log to the operating system (appendfsync no)"
            return (
                f"Redis {'.'.join(map(str, self.version))} has no WAITAOF and does not sync always"
            )
        return ""

    def waits(self, purpose: Purpose, wait_ms: int) -> list[Command]:
        """What to send behind a mark: its answers say whether the mark is safe."""
        disk: list[Command] = [["WAITAOF", 1, 0, wait_ms]]
        replica: list[Command] = [["WAIT", 1, wait_ms]]
        waits_for_disk = self.logs and self.syncs != "no" and self.version >= _WAITAOF_SINCE
        if purpose == "replica":
            return replica
        if purpose == "fsync":
            return disk if waits_for_disk else []
        return [*(replica if self.replicas else ()), *(disk if waits_for_disk else ())]

    @property
    def _is_told_of_disk(self) -> bool:
        """Whether it can be known that a write is on its disk."""
        if self.syncs == "always":
            return True
        return self.syncs != "no" and self.version >= _WAITAOF_SINCE


def read(answers: Sequence[Reply]) -> Facts:
    """Read the answers to QUESTIONS, of which the last may be an error."""
    *infos, config = answers
    lines = [line for info in infos for line in cast("bytes", info).decode().splitlines()]
    told = {name: value for line in lines for name, _, value in [line.partition(":")] if value}
    replicas = sum(_REPLICA.fullmatch(name) is not None and _ONLINE in told[name] for name in told)
    good = told.get("min_slaves_good_slaves")  # said only where min-replicas-to-write is set
    return Facts(
        replicas=replicas if good is None else min(replicas, int(good)),
        logs=told.get("aof_enabled") == "1",
        syncs=_value(config),
        version=tuple(map(int, told.get("redis_version", "0").split(".")[:2])),
    )


def reached(answer: Reply) -> bool:
    """Whether a wait found what it waited for: WAIT tells a number, WAITAOF two, its disk first."""
    count = cast("list[int]", answer)[0] if isinstance(answer, list) else cast("int", answer)
    return count >= 1


def _value(config: Reply) -> str:
    said = cast("list[bytes]", config) if isinstance(config, list) else []
    return said[1].decode() if len(said) > 1 else ""
