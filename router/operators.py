"""Who orders something, and why, as it is written down."""

from collections.abc import Mapping
from typing import Any, Final

import grpc.aio

from tradewind import wire
from tradewind.audit import AuditRecord
from tradewind.errors import InvalidTask

Context = grpc.aio.ServicerContext[Any, Any]

MAX_REASON_BYTES: Final = 1_000
MAX_OPERATOR_CHARS: Final = 100
_NOTHING: Final[Mapping[str, str]] = {}


def record_of(
    context: Context, deed: str, *, on: str = "", why: str = "", told: Mapping[str, str] = _NOTHING
) -> AuditRecord:
    """What the caller does."""
    return AuditRecord(deed, operator_of(context), on, why, told=told)


def operator_of(context: Context) -> str:
    """Who asks: what the caller says of itself, and where it is."""
    said = dict(context.invocation_metadata() or ()).get(wire.OPERATOR_METADATA, "")
    name = said if isinstance(said, str) else ""
    peer = context.peer() or ""
    return f"{name[:MAX_OPERATOR_CHARS]} ({peer})" if name else peer


def reason_of(text: str) -> str:
    """Return the reason of an order. Raises InvalidTask for one that is too long."""
    if (size := len(text.encode())) > MAX_REASON_BYTES:
        raise InvalidTask.field("reason", f"has {size} bytes, the limit is {MAX_REASON_BYTES}")
    return text
