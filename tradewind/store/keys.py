"""Every key that Tradewind keeps in a Redis, one line each: type, members, life.

All keys of a task lie under the tag of its partition, so that one script can change them
together. Texts from callers come last in a key, and never before the tag's closing brace, so a
brace in a queue name cannot choose the slot.
"""

from functools import lru_cache

from tradewind.store.tags import tags
from tradewind.task import Lane

#: Kinds of key that may stay for ever without belonging to a task.
PERMANENT = frozenset({"identity", "counts", "parked", "control", "audit"})


class PartitionKeys:
    """Keys of one partition. `prefix` is what scripts build learnt keys from."""

    __slots__ = (
        "audit",
        "cancels",
        "control",
        "counts",
        "courier",
        "dead",
        "dead_until",
        "due_high",
        "due_low",
        "due_normal",
        "evacuated",
        "expiry",
        "hooks",
        "identity",
        "imports",
        "leases",
        "moving",
        "outbox",
        "parked",
        "prefix",
        "probe",
        "tag",
        "watch",
        "workers",
    )

    def __init__(self, tag: str) -> None:
        """`tag` as in the tag table, without braces."""
        self.tag = tag
        self.prefix = prefix = f"tw:{{{tag}}}:"
        self.identity = prefix + "identity"  # HASH deployment, region, ...; permanent
        self.counts = prefix + "counts"  # HASH KIND:queue, P -> tasks; fields go at 0, but P
        self.leases = prefix + "leases"  # ZSET task_id -> lease_until_ms
        self.due_high = prefix + "due:0"  # ZSET task_id -> due_ms (SCHEDULED, FAILED)
        self.due_normal = prefix + "due:1"  # ZSET, the same
        self.due_low = prefix + "due:2"  # ZSET, the same
        self.expiry = prefix + "expiry"  # ZSET task_id -> expires_ms, of what waits
        self.dead = prefix + "dead"  # ZSET task_id -> died_ms
        self.dead_until = prefix + "dead_until"  # ZSET task_id -> purged_ms
        self.outbox = prefix + "outbox"  # ZSET task_id -> when a courier should look at it, ms
        self.hooks = prefix + "hooks"  # ZSET task_id -> when on_dead is to hear of it, ms
        self.moving = prefix + "moving"  # ZSET task_id -> begun_ms
        self.evacuated = prefix + "evacuated"  # HASH at, moved, k:REASON -> kept; TTL EVACUATED_MS
        self.imports = prefix + "imports"  # ZSET task_id -> imported_ms, unsettled
        self.parked = (
            prefix + "parked"
        )  # HASH queue, "queue name" -> tickets parked; fields go at 0
        self.courier = prefix + "courier"  # STRING worker_id; TTL COURIER_LEASE_MS
        self.probe = prefix + "probe"  # STRING; gone at once, TTL 10 s
        self.watch = prefix + "watch"  # shard channel: ids of watched tasks that changed
        self.cancels = prefix + "cancels"  # shard channel: ids of running tasks to be cancelled
        self.workers = prefix + "workers"  # HASH worker_id -> report; TTL; control partition only
        self.control = prefix + "control"  # HASH, the control document; permanent; the same
        self.audit = prefix + "audit"  # STREAM, who did what; at most 10,000; permanent; the same

    @property
    def due(self) -> dict[str, str]:
        """The sets of what is due, by slot name: one for each priority."""
        return {
            "due_high": self.due_high,
            "due_normal": self.due_normal,
            "due_low": self.due_low,
        }

    def task(self, task_id: str) -> str:
        """HASH, the record. No TTL while alive or dead, then the queue's retention."""
        return f"{self.prefix}t:{task_id}"

    def ready(self, queue: str, priority: int, *, suspect: bool = False) -> str:
        """LIST of tickets task_id:revision:since_ms[:ready_ms]; parked: parked:QUEUE NAME."""
        return f"{self.prefix}q:{queue}:{place_of(priority, suspect=suspect)}"

    def lane(self, lane: Lane) -> str:
        """LIST or ZSET, where tasks wait, or lie dead."""
        match lane.kind:
            case "ready":
                return self.ready(lane.queue, lane.priority, suspect=lane.suspect)
            case "parked":
                return f"{self.prefix}parked:{lane.queue} {lane.name}"
            case "due":
                return (self.due_high, self.due_normal, self.due_low)[lane.priority]
            case "dead":
                return self.dead

    def wake(self, queue: str) -> str:
        """LIST with at most one hint; TTL 60 s."""
        return f"{self.prefix}wake:{queue}"

    def suspects(self, queue: str) -> str:
        """LIST, the hint that suspects wait; TTL 60 s."""
        return f"{self.prefix}suspects:{queue}"

    def others(self, queue: str) -> str:
        """LIST, the hint that something parked waits for a worker with other handlers; TTL 60 s."""
        return f"{self.prefix}others:{queue}"

    def entry(self, key: bytes) -> str:
        """HASH, a ledger entry; TTL is its window."""
        return f"{self.prefix}led:{key.hex()}"

    def memory(self, task_id: str) -> str:
        """STRING, what is remembered of an import; no TTL until settled, then IMPORT_MEMORY_MS."""
        return f"{self.prefix}imp:{task_id}"


def place_of(priority: int, *, suspect: bool) -> str:
    """Which of its queue's lists a ticket lies in: suspects have lists of their own."""
    return f"s{priority:d}" if suspect else f"{priority:d}"


@lru_cache(maxsize=8)
def partition_keys(partitions: int) -> tuple[PartitionKeys, ...]:
    """Keys of all partitions, in order. Raises ValueError for a number without a tag table."""
    return tuple(PartitionKeys(tag) for tag in tags(partitions))
