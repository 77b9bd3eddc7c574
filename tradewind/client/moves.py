"""What operators see of moves between regions."""

from dataclasses import dataclass
from datetime import datetime

from tradewind.client.enums import state_of
from tradewind.client.times import moment
from tradewind.client.views import TaskView
from tradewind.v1 import admin_pb2


@dataclass(frozen=True, slots=True)
class EvacuationStatus:
    """How far the evacuation of a region has come; counts are of tasks."""

    moved: int
    remaining: int
    kept: dict[str, int]  # what stays, by reason
    done: bool


@dataclass(frozen=True, slots=True)
class MoveStatus:
    """A task on its way between regions."""

    task_id: str
    source: str
    target: str
    epoch: int
    reason: str  # evacuation, unserved, or how it died
    state: str  # in which it left
    began_at: datetime | None  # by the source's clock


@dataclass(frozen=True, slots=True)
class Retargeted:
    """A task whose move was to be ended."""

    task: TaskView
    ended: bool
    may_run_twice: bool  # its target was not heard


def move_of(sent: admin_pb2.Move) -> MoveStatus:
    """Read a move."""
    return MoveStatus(
        task_id=sent.task_id,
        source=sent.source,
        target=sent.target,
        epoch=sent.epoch,
        reason=sent.reason,
        state=str(state_of(sent.state) or ""),
        began_at=moment(sent.began_at) if sent.HasField("began_at") else None,
    )
