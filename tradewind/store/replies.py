"""What scripts answer, decoded in one place.

An unknown tag raises StoreContractBroken: either a script and its header differ, or somebody
else writes to our keys.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from tradewind.errors import StoreContractBroken
from tradewind.ids import birth_ms
from tradewind.state import FINAL, Mark, State
from tradewind.store import layout, resting
from tradewind.store.keys import place_of
from tradewind.store.letters import LETTERS, word
from tradewind.store.link import Reply
from tradewind.task import (
    Cancelled,
    CancelOutcome,
    CancelRequested,
    Claim,
    EnqueueOutcome,
    Exported,
    Failure,
    Lane,
    LedgerHit,
    Notice,
    Pointer,
    Priority,
    Probe,
    Record,
    Renewed,
    Settled,
    Stored,
    Tombstoned,
    TooLate,
    TooLateToCancel,
)

_PURGED = LETTERS[Mark.PURGED].encode()
_DEAD = LETTERS[State.DEAD_LETTER].encode()
_DELAYED = (State.SCHEDULED, State.FAILED)
# Where a task stood when it left.
_STOOD: dict[str, State] = {Mark.FORWARDED: State.MOVING, Mark.PURGED: State.DEAD_LETTER}
# By what keys.place_of says of them.
_PLACES: dict[str, tuple[Priority, bool]] = {
    place_of(priority, suspect=suspect): (priority, suspect)
    for priority in Priority
    for suspect in (False, True)
}
DEFAULT_MAX_CRASHES = 3  # not stored where it is the default; scripts assume it, too


def tagged(reply: Reply, script: str, *tags: str) -> list[Any]:
    """The reply as a list whose first item is one of `tags`, decoded."""
    if not isinstance(reply, list):
        message = f"{script} answered {type(reply).__name__}, not a list"
        raise StoreContractBroken(message)
    parts = cast("list[Any]", reply)
    tag = parts[0].decode() if isinstance(parts[0], bytes) else str(parts[0])
    if tag not in tags:
        message = f"{script} answered {tag!r}, its header lists {', '.join(tags)}"
        raise StoreContractBroken(message)
    return [tag, *parts[1:]]


def identity(reply: Reply) -> dict[str, str]:
    """Fields of the identity, and now_ms."""
    parts = tagged(reply, "identity", "ok")
    names = ("deployment", "region", "partitions", "format", "incarnation", "now_ms")
    return {name: value.decode() for name, value in zip(names, parts[1:], strict=True)}


def probe(parts: Sequence[Any], rtt_ms: float) -> Probe:
    """How one primary is."""
    _, _, used, most, policy = parts
    memory = int(used) / int(most) if int(most) else 0.0
    evicts = "" if policy in {b"", b"noeviction"} else policy.decode()
    return Probe(rtt_ms, memory, full=memory >= 1, evicts=evicts)


def hit(parts: Sequence[Any]) -> LedgerHit:
    """A ledger entry that answers a submit."""
    _, task_id, region, epoch, confirmed, lease_left_ms, mine, same, adopted, state = parts
    return LedgerHit(
        task_id=task_id.decode(),
        region=region.decode(),
        epoch=int(epoch),
        confirmed=confirmed == 1,
        lease_left_ms=int(lease_left_ms),
        mine=mine == 1,
        same_payload=same == 1,
        adopted=adopted == 1,
        state=State(state.decode()) if state else None,
    )


def enqueued(task_id: str, item: Reply) -> EnqueueOutcome:
    """One item of an enqueue."""
    if isinstance(item, bytes):  # nearly all
        return Stored(task_id, _state(item), created=True)
    parts = tagged(item, "enqueue", "known", "tombstone", "late", "hit")
    match parts[0]:
        case "hit":
            return hit(parts)
        case "tombstone":
            return Tombstoned(task_id)
        case "late":
            return TooLate(task_id)
        case _:
            return known(task_id, parts[1])


@lru_cache(maxsize=16)  # far above the states that there are
def _state(letter: bytes) -> State:
    return State(word(letter))


def known(task_id: str, letter: bytes) -> Stored:
    """A task that is here, or has been: one that was moved on counts as under way."""
    text = word(letter)
    return Stored(task_id, _STOOD.get(text) or State(text), created=False)


def remembered_import(memory: bytes) -> int | None:
    """Epoch of the import that a memory tells of ("in 3", "no 4" or "in 3 no 4")."""
    words = memory.split()
    return int(words[1]) if words[:1] == [b"in"] else None


def settled(item: Reply, script: str) -> Settled:
    """One item of finish, retry, bury, release, confirm_cancel, crashed or progress."""
    if isinstance(item, bytes):  # nearly all
        return Settled(item.decode(), lost=False)
    parts = tagged(item, script, "ok", "lost", "missing")
    state = word(parts[2]) if len(parts) > 2 else ""
    return Settled(parts[1].decode(), lost=parts[0] != "ok", state=state)


def renewed(item: Reply, token: int) -> Renewed:
    """One item of renew."""
    parts = tagged(item, "renew", "ok", "lost", "missing")
    held = parts[0] == "ok"
    asked = held and parts[2] == 1
    return Renewed(parts[1].decode(), token, lost=not held, cancel_requested=asked)


def cancelled(task_id: str, parts: Sequence[Any]) -> CancelOutcome | None:
    """What cancel answered."""
    match parts[0]:
        case "cancelled":
            return Cancelled(task_id)
        case "requested":
            return CancelRequested(task_id)
        case "late":
            return TooLateToCancel(task_id, State(word(parts[1])))
        case "pointer":
            mark, epoch, target = parts[1:]
            return Pointer(task_id, Mark(word(mark)), int(epoch), target.decode())
        case _:
            return None


def claim(region: str, partition: int, parts: Sequence[Any], now_ms: int) -> Claim:
    """One claim of a claim's reply."""
    facts, stored, hops = parts
    words = facts.decode().split(" ")
    task_id, queue, name, place, token, epoch, attempt, crashes, age, ready, hop_count = words
    priority, suspect = _PLACES[place]
    return Claim(  # by place, as they stand there: made for every task
        task_id,
        region,
        partition,
        queue,
        name,
        priority,
        int(token),
        int(epoch),
        int(attempt),
        int(crashes),
        layout.whole(stored, queue, name, region),
        hops,
        birth_ms(task_id) + int(age),
        int(ready),
        now_ms,
        int(hop_count),
        suspect,
        layout.payload_alone(stored),
    )


def fields(flat: Reply) -> dict[str, bytes]:
    """HGETALL's flat list as a dict."""
    parts = cast("list[bytes]", flat)
    return {name.decode(): value for name, value in zip(parts[::2], parts[1::2], strict=True)}


def record(region: str, task_id: str, flat: Reply) -> Record | Pointer | None:
    """A record's fields as a value; None for an absent one. Raises StoreContractBroken."""
    try:
        return _record(region, task_id, fields(flat))
    except (KeyError, ValueError):
        message = (
            f"the record of task {task_id} in region {region} is damaged; "
            "the reconcile sweep makes a dead letter of it"
        )
        raise StoreContractBroken(message) from None


def _record(region: str, task_id: str, f: dict[str, bytes]) -> Record | Pointer | None:
    if f.get("s", _PURGED) == _PURGED:  # to readers it is gone
        return None
    state, epoch = word(f["s"]), _int(f, "ep", 1)
    if state in set(Mark):
        return Pointer(task_id, Mark(state), epoch, _text(f, "mt"))
    failure = None
    if "ek" in f:
        failure = Failure(_text(f, "ek"), _text(f, "em"), _text(f, "et"))
    return Record(
        task_id=task_id,
        region=region,
        state=State(state),
        packed=layout.whole(f.get("p", b""), _text(f, "q"), _text(f, "n"), region),
        epoch=epoch,
        token=_int(f, "tk"),
        attempts=_int(f, "at"),
        crashes=_int(f, "cr") - ("bk" in f),  # booked for the run under way, not suffered
        created_ms=birth_ms(task_id) + _int(f, "c"),
        started_ms=_int(f, "sa"),
        finished_ms=_int(f, "fa"),
        next_attempt_ms=_int(f, "nx"),
        fence=_fence(f),
        result=f.get("rs", b""),
        result_content_type=_text(f, "rt") if "rt" in f or "rs" not in f else "application/json",
        result_omitted="ro" in f,
        payload_omitted="po" in f,
        death=_text(f, "dk"),
        failure=failure,
        hops=f.get("hp", b""),
        failover=_text(f, "fo"),
        settled=state in FINAL or ("se" in f and state == State.DEAD_LETTER),
        target=_text(f, "mt"),
        revision=_int(f, "rv", 1),
        expires_ms=_int(f, "ex"),
        cancel_requested="cq" in f,
        progress=float(f.get("pf", b"0")),
        progress_note=_text(f, "pn"),
        hop_count=_int(f, "hc"),
    )


def notice(region: str, task_id: str, flat: Reply, now_ms: int) -> Notice | None:
    """A dead task's fields as word of it; None if it is not dead any more."""
    found = record(region, task_id, flat)
    if not isinstance(found, Record) or found.state is not State.DEAD_LETTER:
        return None
    f = fields(flat)
    return Notice(
        found, queue=_text(f, "q"), name=_text(f, "n"), tries=_int(f, "ht"), now_ms=now_ms
    )


def exported(region: str, task_id: str, flat: Reply, now_ms: int) -> Exported:
    """A record in state MOVING as what the target needs; `now_ms` when it was read."""
    found = record(region, task_id, flat)
    if not isinstance(found, Record):
        message = f"task {task_id} in region {region} is listed as moving and is not there"
        raise StoreContractBroken(message)
    f = fields(flat)
    former = State(word(f.get("ms", _DEAD)))
    rests = former is State.DEAD_LETTER and "mr" in f
    return Exported(
        record=found,
        queue=_text(f, "q"),
        name=_text(f, "n"),
        priority=Priority(_int(f, "pr", Priority.NORMAL)),
        epoch=found.epoch,
        target=found.target,
        hop_count=_int(f, "hc"),
        max_crashes=_int(f, "mc") or DEFAULT_MAX_CRASHES,
        done_key=f.get("dd", b""),
        former=former,
        reason=_text(f, "mr") or found.death,
        begun_ms=_int(f, "mb"),
        delay_ms=max(0, found.next_attempt_ms - now_ms) if former in _DELAYED else 0,
        resting=resting.read(f, now_ms) if rests else None,
    )


def lanes(counts: Sequence[bytes], parked: Sequence[bytes]) -> list[Lane]:
    """Where tasks wait, by the fields of counts and of parked. In an order of their own."""
    found = [Lane("due", priority) for priority in Priority]
    for field in counts:
        place, _, queue = field.decode().partition(":")
        if queue and (known := _PLACES.get(place.removeprefix("p"))) and place.startswith("p"):
            priority, suspect = known
            found.append(Lane("ready", priority, queue, suspect=suspect))
    for field in parked:
        queue, _, name = field.decode().partition(" ")
        if name:
            found.append(Lane("parked", Priority.NORMAL, queue, name))
    return sorted(found, key=lambda lane: (lane.kind, lane.queue, lane.name, lane.priority))


def _int(f: dict[str, bytes], name: str, otherwise: int = 0) -> int:
    return int(f.get(name) or otherwise)


def _text(f: dict[str, bytes], name: str) -> str:
    return f.get(name, b"").decode(errors="replace")


def _fence(f: dict[str, bytes]) -> tuple[str, ...]:
    text = _text(f, "fn")
    return tuple(text.split(",")) if text else ()
