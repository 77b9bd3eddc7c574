"""Admission of specs that are alike: what they share is checked, and the rules applied, once. Pure.

Callers send thousands of tasks that differ in payload, keys and request id only. The rest of a spec
is its shape, known by its bytes: of a spec whose shape was admitted before, only what is its own is
looked at. Whatever is not plainly in order there is left to `admit.check`, which reports it in
full.
"""

from dataclasses import dataclass
from typing import Final

from tradewind import limits, wire
from tradewind.admission import admit
from tradewind.fingerprint import Body, PayloadNotCanonical, is_json, read_body
from tradewind.fleet import Fleet
from tradewind.policy.rules import Resolved, resolve
from tradewind.task import Draft
from tradewind.v1.task_pb2 import PRIORITY_NORMAL, TaskSpec

_OWN: Final = ("payload", "request_id", "idempotency_key", "affinity_key")
_SURELY_SHORT: Final = limits.MAX_KEY_BYTES // 4  # characters; at most four bytes each
_MAX_SHAPES: Final = 1_024
_MAX_SHAPE_BYTES: Final = 1_024  # so that what callers send takes 1 MiB at most


@dataclass(frozen=True, slots=True)
class _Shape:
    draft: Draft  # of the first one, less what was its own
    resolved: Resolved
    is_json: bool


class Shapes:
    """Admits specs by one fleet's rules, and remembers the shapes of those that were in order."""

    def __init__(self, fleet: Fleet) -> None:
        """Nothing is known yet."""
        self._fleet = fleet
        self._known: dict[bytes, _Shape] = {}

    def admit(self, spec: TaskSpec, *, now_ms: int) -> tuple[Draft, Body, Resolved]:
        """Return the draft, its payload read, and what the rules make of it. Uses `spec` up.

        Raises what `admit.check` and `rules.resolve` raise.
        """
        if len(spec.payload) > limits.MAX_PAYLOAD_BYTES:  # refused, before there are copies of it
            admit.check(spec, self._fleet, now_ms=now_ms)
        if not spec.queue:
            spec.queue = wire.DEFAULT_QUEUE
        if not spec.content_type:
            spec.content_type = wire.JSON
        if not spec.priority:
            spec.priority = PRIORITY_NORMAL
        payload, request_id = spec.payload, spec.request_id
        key, affinity = spec.idempotency_key, spec.affinity_key
        whole = spec.SerializeToString()
        for own in _OWN:
            spec.ClearField(own)
        shared = spec.SerializeToString()
        shape = self._known.get(shared)
        body = None if shape is None else _body(shape, payload, request_id, key, affinity)
        if shape is None or body is None:
            return self._at_length(TaskSpec.FromString(whole), shared, now_ms)
        first = shape.draft
        draft = Draft(
            first.name,
            first.queue,
            payload,
            first.content_type,
            first.priority,
            affinity,
            first.tenant,
            first.labels,
            key,
            request_id,
            first.residency,
            first.pin_region,
            first.delay_ms,
            0,
            0,
            first.timeout_ms,
            first.max_attempts,
            first.origin_region,
            whole,
        )
        return draft, body, resolve(draft, self._fleet) if affinity else shape.resolved

    def _at_length(
        self, spec: TaskSpec, shared: bytes, now_ms: int
    ) -> tuple[Draft, Body, Resolved]:
        draft, body = wire.admitted(spec, self._fleet, now_ms=now_ms)
        resolved = resolve(draft, self._fleet)
        lasts = not (spec.HasField("not_before") or spec.HasField("expires_at"))
        if lasts and len(shared) <= _MAX_SHAPE_BYTES:
            if len(self._known) >= _MAX_SHAPES:
                self._known.clear()
            shape = draft._replace(
                payload=b"", spec=b"", request_id="", idempotency_key="", affinity_key=""
            )
            self._known[shared] = _Shape(
                shape, resolve(shape, self._fleet), is_json(draft.content_type)
            )
        return draft, body, resolved


def _body(shape: _Shape, payload: bytes, *texts: str) -> Body | None:
    """The payload, read, if nothing of what is a spec's own can be wrong."""
    if len(max(texts, key=len)) > _SURELY_SHORT:
        return None
    if shape.is_json and payload and payload[0] != _BRACE:
        return None
    try:
        return read_body(payload, shape.draft.content_type)
    except PayloadNotCanonical:
        return None


_BRACE: Final = ord("{")
