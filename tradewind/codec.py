"""What of a task rests in Redis as packed bytes: the unchanging spec, and the stays so far.

The messages are those of proto/tradewind/v1/record.proto. A caller's TaskSpec was serialised once,
at admission; it is embedded here as it is and never parsed on the way in.
"""

from functools import lru_cache
from typing import Final

from google.protobuf.message import DecodeError

from tradewind.fingerprint import PayloadNotCanonical
from tradewind.fingerprint import fingerprint as identity_of
from tradewind.state import State
from tradewind.task import Draft
from tradewind.v1 import record_pb2, task_pb2

_SPEC_TAG = bytes([record_pb2.StoredSpec.SPEC_FIELD_NUMBER << 3 | 2])  # wire type 2: length, bytes

#: Our states and the contract's.
STATES: dict[State, task_pb2.TaskState] = {
    State.PENDING: task_pb2.TASK_STATE_PENDING,
    State.SCHEDULED: task_pb2.TASK_STATE_SCHEDULED,
    State.PROCESSING: task_pb2.TASK_STATE_PROCESSING,
    State.FAILED: task_pb2.TASK_STATE_FAILED,
    State.COMPLETED: task_pb2.TASK_STATE_COMPLETED,
    State.DEAD_LETTER: task_pb2.TASK_STATE_DEAD_LETTER,
    State.MOVING: task_pb2.TASK_STATE_MOVING,
    State.CANCELLED: task_pb2.TASK_STATE_CANCELLED,
    State.EXPIRED: task_pb2.TASK_STATE_EXPIRED,
}


UNREADABLE: Final = "the stored"  # how each DamagedRecord begins


class DamagedRecord(ValueError):
    """Stored bytes that are not what this release, or the one before it, writes."""


def pack(
    draft: Draft,
    *,
    fingerprint: bytes = b"",
    fence: tuple[str, ...],
    traceparent: str,
    birth_region: str = "",
    deduplicated: bool,
) -> bytes:
    """Return the task's StoredSpec, serialised. `draft.spec` is embedded without a look at it.

    Fingerprint and birth region are needed where the submit was deduplicated, or where the
    fingerprint is of another kind than `fingerprint_of` reckons; else they would only cost memory.
    """
    rest = _rest(fingerprint, fence, traceparent, birth_region, deduplicated)
    return b"".join((_SPEC_TAG, _varint(len(draft.spec)), draft.spec, rest))


@lru_cache(maxsize=64)  # of most tasks there is nothing to say but, here and there, a fence
def _rest(
    fingerprint: bytes,
    fence: tuple[str, ...],
    traceparent: str,
    birth_region: str,
    deduplicated: bool,  # noqa: FBT001 - in one place
) -> bytes:
    return record_pb2.StoredSpec(
        fingerprint=fingerprint,
        fence=fence,
        traceparent=traceparent,
        birth_region=birth_region,
        deduplicated=deduplicated,
    ).SerializeToString()


def announcing(packed: bytes, task_id: str) -> bytes:
    """The packed StoredSpec of a task that tells of the dead task `task_id`."""
    # Serialised messages that follow one another merge (proto spec).
    return packed + record_pb2.StoredSpec(announces=task_id).SerializeToString()


def unpack(packed: bytes) -> record_pb2.StoredSpec:
    """Read what `pack` wrote. Raises DamagedRecord."""
    try:
        return record_pb2.StoredSpec.FromString(packed)
    except DecodeError:
        raise DamagedRecord(f"{UNREADABLE} task cannot be read") from None


def fingerprint_of(stored: record_pb2.StoredSpec) -> bytes:
    """The task's identity, 32 bytes: as stored, else reckoned anew as its admission did.

    Raises DamagedRecord for a payload that no admission let in. Without a key it reads the payload,
    60 us a kilobyte.
    """
    if stored.fingerprint:
        return stored.fingerprint
    spec = stored.spec
    try:
        return identity_of(
            tenant=spec.tenant,
            queue=spec.queue or "default",
            name=spec.name,
            key=spec.idempotency_key or None,
            payload=spec.payload,
            content_type=spec.content_type or "application/json",
        )
    except PayloadNotCanonical:
        raise DamagedRecord(f"{UNREADABLE} payload cannot be read") from None


def add_hop(
    hops: bytes, *, region: str, state: State, attempts: int, reason: str, at_ms: int
) -> bytes:
    """Append a stay to the packed StoredHops; `b""` is no stay yet. `at_ms` is when it ended."""
    hop = task_pb2.Hop(region=region, state=STATES[state], attempts=attempts, reason=reason)
    hop.at.FromMilliseconds(at_ms)
    # Serialised messages that follow one another merge: repeated fields are appended (proto spec).
    return hops + record_pb2.StoredHops(hops=[hop]).SerializeToString()


def hops(packed: bytes) -> list[task_pb2.Hop]:
    """Return the stays before the present one, oldest first. Raises DamagedRecord."""
    try:
        return list(record_pb2.StoredHops.FromString(packed).hops)
    except DecodeError:
        raise DamagedRecord(f"{UNREADABLE} route of the task cannot be read") from None


def _varint(value: int) -> bytes:
    """Protobuf's base-128 number, lowest group first."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)
