"""What a task may be, as plain Python: the scripts are compared with this."""

from dataclasses import dataclass, field

from tradewind.state import State
from tradewind.task import Claim

REGIONS = ("eu-west", "us-east")
AWAY = "ap-south"  # a target where nobody answers
WAITING = {State.PENDING, State.SCHEDULED, State.FAILED}


@dataclass
class Place:
    """What one region holds of one task: a live record, a pointer (state None), or a move."""

    state: State | None
    epoch: int
    token: int = 0
    crashes: int = 0
    booked: bool = False  # the claim counted a crash, which a report takes back
    crashed: bool = False  # dead of crashes
    lease_until_ms: int = 0  # PROCESSING
    due_ms: int = 0  # SCHEDULED, FAILED
    dead_until_ms: int = 0  # DEAD_LETTER, MOVING
    expires_ms: int = 0  # 0: never
    settled: bool = False
    target: str = ""  # MOVING or pointer
    former: State | None = None  # MOVING: in which it left
    rests: bool = False  # MOVING: a dead letter, which stays one
    asked: bool = False  # its cancel was asked for while it ran

    def holds(self, claim: Claim) -> bool:
        """Whether the claim's token and epoch are the record's."""
        return (self.token, self.epoch) == (claim.token, claim.epoch)

    @property
    def may_leave(self) -> bool:
        """Whether a move may begin."""
        return self.state in WAITING or (self.state is State.DEAD_LETTER and not self.settled)

    def may(self, rests: bool) -> bool:
        """The same, or for a dead letter whether it may as one."""
        return self.settled and self.state is State.DEAD_LETTER if rests else self.may_leave

    def over(self, now_ms: int) -> bool:
        """Whether its expiry has passed."""
        return 0 < self.expires_ms <= now_ms


@dataclass
class Import:
    """What a region remembers of imports of one task."""

    came: int = -1
    refused: int = -1


@dataclass
class Entry:
    """What a ledger says of one key."""

    task_id: str
    region: str
    epoch: int
    confirmed: bool
    lease_until_ms: int = 0


@dataclass
class Model:
    """Every accepted task, wherever it is."""

    now_ms: int
    places: dict[tuple[str, str], Place] = field(default_factory=dict[tuple[str, str], Place])
    tombs: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    purged: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    imports: dict[tuple[str, str], Import] = field(default_factory=dict[tuple[str, str], Import])
    ledger: dict[tuple[str, bytes], Entry] = field(default_factory=dict[tuple[str, bytes], Entry])
    done: dict[tuple[str, bytes], str] = field(default_factory=dict[tuple[str, bytes], str])
    # Key, and until when a copy is a duplicate.
    done_keys: dict[str, tuple[bytes, int]] = field(default_factory=dict[str, tuple[bytes, int]])
    last_token: dict[str, int] = field(default_factory=dict[str, int])

    def at(self, region: str, task_id: str) -> Place | None:
        """What the region holds of the task."""
        return self.places.get((region, task_id))

    def held(self, region: str) -> dict[str, Place]:
        """All that the region holds."""
        return {id_: place for (where, id_), place in self.places.items() if where == region}

    def alive(self) -> int:
        """Tasks that have not ended."""
        ended = {None, State.COMPLETED, State.CANCELLED, State.EXPIRED}
        return len({task_id for (_, task_id), p in self.places.items() if p.state not in ended})

    def remembered(self, region: str, task_id: str) -> Import:
        """The region's memory of imports of the task."""
        return self.imports.setdefault((region, task_id), Import())

    def ready(self, region: str) -> list[str]:
        """Tasks that a claim may bring now: it promotes what is due."""
        return [task_id for task_id, place in self.held(region).items() if self.is_ready(place)]

    def is_ready(self, place: Place) -> bool:
        """Whether the task waits for nothing but a worker."""
        return place.state is State.PENDING or (
            place.state in WAITING and place.due_ms <= self.now_ms
        )

    def only_ends(self, region: str, task_id: str) -> bool:
        """Whether a claim ends the ready task instead of bringing it."""
        place = self.places[region, task_id]
        return place.over(self.now_ms) or self.is_copy(region, task_id)

    def is_copy(self, region: str, task_id: str) -> bool:
        """Whether another task completed the task's fingerprint here, in the window of both."""
        key, until_ms = self.done_keys.get(task_id, (b"", 0))
        first = self.done.get((region, key))
        return first is not None and first != task_id and until_ms > self.now_ms

    def complete(self, region: str, task_id: str) -> None:
        """A completion that counts."""
        self.places[region, task_id].state = State.COMPLETED
        key, until_ms = self.done_keys.get(task_id, (b"", 0))
        if until_ms > self.now_ms:
            self.done.setdefault((region, key), task_id)

    def forget(self, region: str, key: str) -> None:
        """A key has expired: `key` without the partition's prefix. It must have been allowed to."""
        kind, _, name = key.partition(":")
        match kind:
            case "t" if (region, name) in self.tombs:
                del self.tombs[region, name]
            case "t" if (region, name) in self.purged:
                del self.purged[region, name]
            case "t":
                place = self.places.pop((region, name))
                assert place.state in {None, State.COMPLETED, State.CANCELLED, State.EXPIRED}
            case "led":
                del self.ledger[region, bytes.fromhex(name)]
            case "imp":
                del self.imports[region, name]
            case "done":
                del self.done[region, bytes.fromhex(name)]
            case _:
                assert kind in {"wake", "others", "suspects", "courier"}, f"{key} may not expire"
