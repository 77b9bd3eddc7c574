"""All that is known of a run from outside: what clients were told, what handlers did, what broke.

Times are the machine's monotonic clock in seconds, the same in all processes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.faults import Strike
from tests.chaos.load_plan import Operation


@dataclass(frozen=True, slots=True)
class Told:
    """The answer to one submit, or to a cancel of it."""

    number: int  # of the operation
    call: str  # submit, again or cancel
    asked_at: float
    told_at: float
    task_id: str = ""  # empty: refused
    region: str = ""
    is_doubtful: bool = False  # possible_duplicate
    is_unconfirmed: bool = False  # replication_unconfirmed
    is_cancelled: bool = False  # of a cancel: confirmed
    error: str = ""  # its reason, if there is no task
    is_nothing_kept: bool = False  # of an error: certainly nothing of it is stored


@dataclass(frozen=True, slots=True)
class Line:
    """What a handler wrote down: it has started, failed, or done its work."""

    event: str
    number: int
    task_id: str
    attempt: int
    token: int  # fencing token
    region: str
    pid: int
    at: float


@dataclass(frozen=True, slots=True)
class Run:
    """One start, and how it ended; `ended` is empty if nobody heard of it."""

    started: Line
    ended: str = ""
    ended_at: float = float("inf")


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault as it was carried out."""

    strike: Strike
    began_at: float
    ended_at: float
    what: str  # which process or link, in words


@dataclass(frozen=True, slots=True)
class End:
    """A task as one router knows it in the end. `state` is empty if it knows of none."""

    state: str
    region: str = ""
    result: str = ""  # JSON
    is_settled: bool = False
    died_of: str = ""  # of a dead one


@dataclass(frozen=True, slots=True)
class History:
    """A whole run."""

    operations: Sequence[Operation]
    told: Sequence[Told]
    lines: Sequence[Line]
    struck: Sequence[Struck]
    ends: Mapping[str, Sequence[End]]  # task_id -> what each router says
    first_seen: Mapping[str, End]  # task_id -> as it was when it was first seen settled
    owners: Mapping[str, Sequence[str]]  # task_id -> regions that hold a record of it
    marks: Mapping[int, Sequence[str]]  # number of a fenced task -> where outside it was found
    untidy: Mapping[str, Sequence[str]]  # region -> keys nobody will remove, counts that are wrong
    healed_at: float = 0.0
    runs: Mapping[str, Sequence[Run]] = field(init=False)

    def __post_init__(self) -> None:
        """Join starts and ends."""
        runs: dict[str, list[Run]] = {}
        for line in sorted(self.lines, key=lambda line: line.at):
            if line.event == "start":
                runs.setdefault(line.task_id, []).append(Run(line))
                continue
            mine = runs.get(line.task_id, [])
            for at, run in enumerate(mine):
                if (run.started.token, run.started.pid) == (line.token, line.pid):
                    mine[at] = Run(run.started, line.event, line.at)
        object.__setattr__(self, "runs", runs)

    def accepted(self) -> Iterator[Told]:
        """Submits that got a task."""
        return (one for one in self.told if one.task_id and one.call != "cancel")

    def between(self, since: float, until: float) -> Iterator[Struck]:
        """Faults that were in force at any moment of that time."""
        return (one for one in self.struck if one.began_at <= until and one.ended_at >= since)

    def story(self, number: int, task_ids: frozenset[str]) -> list[str]:
        """All that concerns one operation and its tasks, in order, with the faults meanwhile."""
        events: list[tuple[float, str]] = []
        for one in self.told:
            if one.number == number or one.task_id in task_ids:
                answer = one.task_id or one.error
                events += [
                    (one.asked_at, f"{one.call} #{one.number} asked"),
                    (one.told_at, f"{one.call} #{one.number} told {answer} {one.region}".rstrip()),
                ]
        for line in self.lines:
            if line.task_id in task_ids or line.number == number:
                said = f"{line.event} {line.task_id} attempt {line.attempt} in {line.region}"
                events.append((line.at, f"{said}, pid {line.pid}, token {line.token}"))
        since, until = min(events, default=(0.0, ""))[0], max(events, default=(0.0, ""))[0]
        for one in self.between(since - 1, until + 1):
            name = f"{one.strike.fault}: {one.what}"
            events += [(one.began_at, f"{name} begins"), (one.ended_at, f"{name} is over")]
        zero = min((one.asked_at for one in self.told), default=0.0)
        return [f"{at - zero:9.3f} s  {what}" for at, what in sorted(events)]
