"""What tests.redis_keys looks for in a Redis, looked for in a dump: it costs no round trip."""

from collections import Counter
from collections.abc import Mapping

from tests.machine.dump import Dump
from tradewind.state import State
from tradewind.store.keys import PERMANENT

_LETTERS = {
    State.SCHEDULED: "s",
    State.PROCESSING: "r",
    State.FAILED: "f",
    State.MOVING: "m",
    State.DEAD_LETTER: "d",
}


SORTED = {
    *("leases", "due:0", "due:1", "due:2", "expiry", "dead", "dead_until"),
    *("outbox", "hooks", "moving", "imports"),
}


def left_behind(seen: Dump) -> set[str]:
    """Keys without TTL that belong to no live or dead task, no unsettled import, and may not stay.

    In a list of tickets some may be stale, and all of them while a hint is out: whoever takes it
    drops them.
    """
    owners = {key[2:] for key in seen.lasting if key.startswith("t:")}
    owners |= {member for member, _ in seen.keys.get("imports", ())}
    return {
        key
        for key in seen.lasting
        if key not in PERMANENT and not _is_hinted(key, seen) and not _is_owned(key, seen, owners)
    }


def _is_owned(key: str, seen: Dump, owners: set[str]) -> bool:
    value = seen.keys[key]
    if key.startswith(("q:", "parked:")):
        return bool(owners.intersection(ticket.partition(":")[0] for ticket in value))
    if key in SORTED:
        return owners.issuperset(_members(value))
    return key.partition(":")[2] in owners


def _members(scores: list[tuple[str, float]]) -> set[str]:
    return {member for member, _ in scores}


def _is_hinted(key: str, seen: Dump) -> bool:
    kind, _, rest = key.partition(":")
    queue, _, place = rest.rpartition(":")
    hint = "suspects:" if place.startswith("s") else "wake:"
    return kind == "q" and hint + queue in seen.keys


def wrong_counts(seen: Dump) -> Mapping[str, tuple[int, int]]:
    """Fields of counts that differ from the records: (counted, in records)."""
    actual: Counter[str] = Counter()
    for fields in seen.records.values():
        state, place = fields["s"], f"{fields.get('pr')}:{fields.get('q')}"
        if state == State.PENDING:
            actual.update(["P", f"p{place}"])
            actual.update([f"ps{place}"] if int(fields.get("cr", 0)) else [])
        elif state in _LETTERS:
            actual[f"{_LETTERS[State(state)]}:{fields['q']}"] += 1
    counted = {field: int(number) for field, number in seen.keys.get("counts", {}).items()}
    return {
        field: (counted.get(field, 0), actual[field])
        for field in {*counted, *actual}
        if counted.get(field, 0) != actual[field]
    }
