"""Whose a key is: which of them are ours, and by which tasks those without a TTL are kept.

Invariant 8: every key has a TTL, or belongs to a live or dead task, or is of a permanent kind.
"""

from collections.abc import Iterable

from tradewind.store.keys import PERMANENT


def is_ours(key: str) -> bool:
    """Whether the key is in our form; others may use the same Redis."""
    return key.startswith("tw:{") and "}:" in key


def place_of(key: str) -> str:
    """The key up to its partition's tag."""
    return key.partition("}:")[0]


def kind_of(key: str) -> str:
    """What follows the tag."""
    return key.partition("}:")[2]


def is_record(key: str) -> bool:
    """Whether it is a task itself."""
    return kind_of(key).startswith("t:")


def is_task_s(key: str) -> bool:
    """Whether it must have a TTL or a task that it belongs to; a record does as well."""
    return kind_of(key) not in PERMANENT


def is_owner(key: str) -> bool:
    """Whether what it names lives as long as it is named there.

    An import is remembered until it is settled, however long its task is gone.
    """
    return kind_of(key) == "imports"


def tasks_in(key: str, kind: str, members: Iterable[str]) -> set[str]:
    """Ids of the tasks that a key of Redis type `kind` names: by its members, or by its own name.

    In a list of tickets some may be stale: claims drop them, so one live ticket keeps the list.
    """
    match kind:
        case "list":
            return {member.partition(":")[0] for member in members}
        case "zset":
            return set(members)
        case _:
            return {key.rpartition(":")[2]}
