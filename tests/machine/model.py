"""What a task may be, as plain Python: the scripts are compared with this."""

from dataclasses import dataclass, field

from tradewind.state import State
from tradewind.task import Claim

REGIONS = ("eu-west", "us-east")
AWAY = "ap-south"  # a target where nobody answers
RUNNABLE = {State.PENDING, State.SCHEDULED, State.FAILED, State.PROCESSING}


@dataclass
class Place:
    """What one region holds of one task: a live record, a pointer (state None), or a move."""

    state: State | None
    epoch: int
    token: int = 0
    crashes: int = 0
    lease_over: bool = False
    settled: bool = False
    target: str = ""  # MOVING or pointer
    expires: bool = False
    over: bool = False  # its expiry has passed
    asked: bool = False  # its cancel was asked for while it ran

    def holds(self, claim: Claim) -> bool:
        """Whether the claim's token and epoch are the record's."""
        return (self.token, self.epoch) == (claim.token, claim.epoch)


@dataclass
class Import:
    """What a region remembers of imports of one task."""

    came: int = -1
    refused: int = -1


@dataclass
class Model:
    """Every accepted task, wherever it is."""

    places: dict[tuple[str, str], Place] = field(default_factory=dict[tuple[str, str], Place])
    imports: dict[tuple[str, str], Import] = field(default_factory=dict[tuple[str, str], Import])
    ledger: dict[tuple[str, bytes], str] = field(default_factory=dict[tuple[str, bytes], str])
    done: dict[tuple[str, bytes], str] = field(default_factory=dict[tuple[str, bytes], str])
    done_keys: dict[str, bytes] = field(default_factory=dict[str, bytes])
    birth: dict[str, str] = field(default_factory=dict[str, str])
    results: dict[str, int] = field(default_factory=dict[str, int])  # completions that counted
    purged: set[str] = field(default_factory=set[str])
    last_token: dict[str, int] = field(default_factory=dict[str, int])

    def at(self, region: str, task_id: str) -> Place | None:
        """What the region holds of the task."""
        return self.places.get((region, task_id))

    def remembered(self, region: str, task_id: str) -> Import:
        """The region's memory of imports of the task."""
        return self.imports.setdefault((region, task_id), Import())

    def ready(self, region: str) -> list[str]:
        """Tasks that a claim may bring now: retries of the machine are due at once."""
        return [
            task_id
            for (where, task_id), place in self.places.items()
            if where == region and place.state in {State.PENDING, State.FAILED}
        ]

    def only_ends(self, region: str, task_id: str) -> bool:
        """Whether a claim ends the ready task instead of bringing it."""
        return self.places[region, task_id].over or self.is_copy(region, task_id)

    def is_copy(self, region: str, task_id: str) -> bool:
        """Whether the task's fingerprint was completed in this region by another task."""
        first = self.done.get((region, self.done_keys.get(task_id, b"")))
        return first is not None and first != task_id

    def complete(self, region: str, task_id: str) -> None:
        """A completion that counts."""
        place = self.places[region, task_id]
        place.state = State.COMPLETED
        self.results[task_id] = self.results.get(task_id, 0) + 1
        key = self.done_keys.get(task_id, b"")
        if key:
            self.done.setdefault((region, key), task_id)
