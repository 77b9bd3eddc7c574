"""Short names of the wire's enum values: PENDING for TASK_STATE_PENDING."""

from functools import lru_cache

from tradewind.errors import InvalidTask
from tradewind.state import State
from tradewind.task import Priority
from tradewind.v1 import task_pb2

_PREFIXES = ("TASK_STATE_", "REGION_STATE_", "PRIORITY_", "HEALTH_")
_PRIORITIES = {
    "HIGH": task_pb2.PRIORITY_HIGH,
    "NORMAL": task_pb2.PRIORITY_NORMAL,
    "LOW": task_pb2.PRIORITY_LOW,
}


def short_name(name: str) -> str:
    """Cut the prefix that buf's style asks for."""
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


@lru_cache(maxsize=64)  # every receipt names one of few
def state_of(value: "task_pb2.TaskState") -> State | None:
    """Read a task state. None for one that was not set, or that a newer router knows."""
    try:
        return State(short_name(task_pb2.TaskState.Name(value)))
    except ValueError:
        return None


def priority_of(value: Priority | str) -> "task_pb2.Priority":
    """Read a caller's priority: a Priority, or its name in any case. Raises InvalidTask."""
    name = value.name if isinstance(value, Priority) else str(value).upper()
    if name not in _PRIORITIES:
        raise InvalidTask.field("priority", f"{value!r} is not one of high, normal, low")
    return _PRIORITIES[name]
