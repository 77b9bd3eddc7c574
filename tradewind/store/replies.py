"""What scripts answer, decoded in one place; and what error replies mean.

An unknown tag raises StoreContractBroken: either a script and its header differ, or somebody
else writes to our keys.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

from redis import exceptions as redis_errors

from tradewind.errors import (
    StoreContractBroken,
    StoreError,
    StoreFull,
    StoreMoving,
    StoreUnavailable,
)
from tradewind.ids import birth_ms
from tradewind.state import Mark, State
from tradewind.store import layout
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


class Elsewhere(StoreError):
    """The slot is served by another node: learn the map anew and repeat there."""


class Later(StoreError):
    """The node cannot serve the call at the moment: back off within the deadline."""

    def __init__(self, cause: str) -> None:
        """`cause` is ours."""
        self.cause = cause
        super().__init__(cause)


class ScriptUnknown(StoreError):
    """NOSCRIPT: send the source to the same node."""


def _login_refused(region: str) -> StoreError:
    return StoreUnavailable(region, "login refused", sent=False)


_BY_CLASS: tuple[tuple[type[Exception], Callable[[str, int], StoreError]], ...] = (
    (redis_errors.NoScriptError, lambda _r, _p: ScriptUnknown()),
    (redis_errors.AskError, StoreMoving),
    (redis_errors.TryAgainError, StoreMoving),
    (redis_errors.MovedError, lambda _r, _p: Elsewhere()),
    (redis_errors.ReadOnlyError, lambda _r, _p: Elsewhere()),
    (redis_errors.ClusterDownError, lambda _r, _p: Later("cluster down")),  # MASTERDOWN, too
    (redis_errors.BusyLoadingError, lambda _r, _p: Later("still loading its data")),
    (redis_errors.OutOfMemoryError, lambda r, _p: StoreFull(r)),
    (redis_errors.AuthenticationError, lambda r, _p: _login_refused(r)),
    (redis_errors.NoPermissionError, lambda r, _p: _login_refused(r)),
)
# Replies that redis-py gives no class of their own, by their first word.
_BY_WORD: dict[str, Callable[[str], StoreError]] = {
    "OOM": StoreFull,
    "BUSY": lambda _r: Later("busy with a script"),
    "NOREPLICAS": lambda _r: Later("not enough replicas"),
    "MISCONF": lambda _r: Later("cannot persist its data"),
    "NOAUTH": _login_refused,
    "NOPERM": _login_refused,
    "WRONGPASS": _login_refused,
}


_NOT_PERMITTED = "its login lacks a permission that our scripts need"
# Faults that a script meets on its way: it may have written before, so the outcome is unknown.
_ON_THE_WAY = (
    ("ACL failure in script", _NOT_PERMITTED),
    ("user executing the script can't", _NOT_PERMITTED),  # the same in Redis 7.0
    ("WRONGTYPE", "somebody else's data is under our keys"),
)


def error_of(region: str, partition: int, error: Exception) -> StoreError:
    """Our error for an error reply. Only where it says `sent` may anything have been changed."""
    text = str(error)
    for words, cause in _ON_THE_WAY:
        if words in text:
            return StoreUnavailable(region, cause, sent=True, failed=True)
    for kind, ours in _BY_CLASS:
        if isinstance(error, kind):
            return ours(region, partition)
    by_word = _BY_WORD.get(text.split(" ", 1)[0])
    if by_word is not None:
        return by_word(region)
    return StoreContractBroken(f"region {region} answered a script with an error: {text[:200]}")


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
    """A record's fields as a value; None for an absent one."""
    f = fields(flat)
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
        death=_text(f, "dk"),
        failure=failure,
        hops=f.get("hp", b""),
        failover=_text(f, "fo"),
        settled=state in {State.COMPLETED, State.CANCELLED, State.EXPIRED} or "se" in f,
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


def waiting(counts: dict[str, bytes]) -> int:
    """Tasks of a partition that wait, or are on their way, by its counts."""
    kinds = ("s:", "f:", "m:")
    return sum(int(n) for field, n in counts.items() if field == "P" or field.startswith(kinds))


def moved(tally: dict[str, bytes], order_ms: int) -> int:
    """Tasks of a partition that left for the evacuation that was ordered then."""
    return _int(tally, "moved") if _int(tally, "at") == order_ms else 0


def kept(tally: dict[str, bytes], order_ms: int) -> Counter[str]:
    """Tasks of a partition that did not leave for it, by reason."""
    if _int(tally, "at") != order_ms:
        return Counter()
    return Counter({f[2:]: int(n) for f, n in tally.items() if f.startswith("k:")})


def _int(f: dict[str, bytes], name: str, otherwise: int = 0) -> int:
    return int(f.get(name) or otherwise)


def _text(f: dict[str, bytes], name: str) -> str:
    return f.get(name, b"").decode(errors="replace")


def _fence(f: dict[str, bytes]) -> tuple[str, ...]:
    text = _text(f, "fn")
    return tuple(text.split(",")) if text else ()
