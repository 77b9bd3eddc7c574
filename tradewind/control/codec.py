"""The document as it lies in Redis: JSON, which people can read there.

Fields that are missing have their defaults and unknown ones are ignored, so that versions of
Tradewind can stand beside each other. A state that this version does not know is DRAINING: of
whatever a newer one may order, that is the careful reading.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from tradewind.control.values import Control, Evacuation, Order, Pause, RegionState, Stamp

#: Of one document. 500 paused queues with the longest names take a fifth of it.
MAX_BYTES: Final = 1 << 20
_MAX_EPOCH: Final = 1 << 52  # exact in Lua, whose numbers are doubles
_STATES: Final[Mapping[str, RegionState]] = {"ACTIVE": "ACTIVE", "CORDONED": "CORDONED"}

Value = TypeVar("Value")


class DamagedControl(Exception):
    """It cannot be read: somebody else's data, or a version that is too new."""


def encode(control: Control) -> bytes:
    """The document as JSON. Raises ValueError if it has grown past MAX_BYTES."""
    written = {
        "epoch": control.stamp.epoch,
        "change_id": control.stamp.change_id,
        "regions": {name: _order(order) for name, order in control.regions.items()},
        "pauses": {q: {"by": p.by, "at_ms": p.at_ms} for q, p in control.pauses.items()},
        "evacuations": {
            name: {"rate_per_s": one.rate_per_s, "by": one.by, "at_ms": one.at_ms}
            for name, one in control.evacuations.items()
        },
        "forced": control.forced,
        "recent": list(control.recent),
    }
    data = json.dumps(written, ensure_ascii=False, separators=(",", ":")).encode()
    if len(data) > MAX_BYTES:
        message = f"the control document has {len(data)} bytes, the limit is {MAX_BYTES}"
        raise ValueError(message)
    return data


def decode(data: bytes) -> Control:
    """Read a document. Raises DamagedControl."""
    if len(data) > MAX_BYTES:
        raise DamagedControl(f"it has {len(data)} bytes, the limit is {MAX_BYTES}")
    try:
        return _control(_Fields(json.loads(data)))
    except (ValueError, RecursionError) as error:  # not UTF-8 is a ValueError, too
        raise DamagedControl(str(error)) from None


def _order(order: Order) -> dict[str, Any]:
    return {
        "state": order.state,
        "reason": order.reason,
        "by": order.by,
        "at_ms": order.at_ms,
        "forced": order.forced,
    }


def _control(fields: "_Fields") -> Control:
    epoch = fields.get("epoch", int)
    if not 0 < epoch < _MAX_EPOCH:
        message = f"epoch {epoch} is out of range"
        raise ValueError(message)
    return Control(
        Stamp(epoch, fields.get("change_id", str)),
        regions=fields.each(
            "regions",
            lambda f: Order(
                _STATES.get(f.get("state", str), "DRAINING"),
                f.get("reason", str),
                f.get("by", str),
                f.get("at_ms", int),
                f.get("forced", bool),
            ),
        ),
        pauses=fields.each("pauses", lambda f: Pause(f.get("by", str), f.get("at_ms", int))),
        evacuations=fields.each(
            "evacuations",
            lambda f: Evacuation(f.rate("rate_per_s"), f.get("by", str), f.get("at_ms", int)),
        ),
        forced=fields.get("forced", bool),
        recent=fields.texts("recent"),
    )


class _Fields:
    """A JSON object whose values are of the kind that is asked for. All raise ValueError."""

    def __init__(self, value: Any) -> None:
        if not isinstance(value, dict):
            message = f"{type(value).__name__} stands where an object should"
            raise ValueError(message)  # noqa: TRY004 - of the data, not of the caller
        self._value = cast("dict[str, Any]", value)

    def get(self, name: str, kind: type[Value]) -> Value:
        """The field, or what is empty of that kind."""
        found = self._value.get(name, kind())
        if type(found) is not kind:
            message = f"{name} is {type(found).__name__}, not {kind.__name__}"
            raise ValueError(message)
        return found

    def rate(self, name: str) -> float:
        """A number of at least 0."""
        found = self._value.get(name, 0)
        if type(found) not in {int, float} or not math.isfinite(found) or found < 0:
            message = f"{name} is no rate"
            raise ValueError(message)
        return float(found)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        found: list[Any] = self.get(name, cast("type[list[Any]]", list))
        if not all(isinstance(text, str) for text in found):
            message = f"{name} holds something else than texts"
            raise ValueError(message)
        return tuple(found)

    def each(self, name: str, read: "Callable[[_Fields], Value]") -> dict[str, Value]:
        """An object whose members are all alike."""
        found: dict[str, Any] = self.get(name, cast("type[dict[str, Any]]", dict))
        return {key: read(_Fields(value)) for key, value in found.items()}
