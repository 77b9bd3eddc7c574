"""Durations, shares and names as regions.yaml spells them; problems are ValueErrors."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from tradewind.limits import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

_UNIT_MS = {"ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
DURATION_PATTERN = r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)"
SHARE_PATTERN = r"([0-9]{1,6}(?:\.[0-9]{1,6})?)%"
LABEL_PATTERN = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"  # RFC 1123 section 2.1

_EXAMPLES = ("250ms", "30s", "5m", "24h")

_DURATION = re.compile(DURATION_PATTERN)
_PERCENT = re.compile(SHARE_PATTERN)
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")
_DNS_LABEL = re.compile(LABEL_PATTERN)


def duration_ms(value: object) -> float:
    """`250ms 30s 5m 24h 14d` as milliseconds. A number without a unit is refused."""
    if is_number(value):
        raise ValueError(f"a duration needs a unit: write {value}s or {value}ms")
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a duration such as 250ms, 30s, 5m, 24h or 14d")
    return float(found[1]) * _UNIT_MS[found[2]]


def duration_text(ms: float) -> str:
    """Spell milliseconds as people do: in the largest unit that leaves a whole number, but 24h."""
    if not ms:
        return "0s"
    fitting = (unit for unit, size in _UNIT_MS.items() if ms % size == 0)
    *_, unit = ("ms", *fitting)
    unit = "h" if ms == DAY_MS else unit
    return f"{ms / _UNIT_MS[unit]:.15g}{unit}"


def share_text(fraction: float) -> str:
    """Spell a fraction as the file does: 0.3 is `30%`."""
    return f"{fraction * 100:.15g}%"


def share(value: object) -> float:
    """`30%` as 0.30. A number without the sign is refused."""
    if is_number(value):
        number = float(str(value))
        meant = number * 100 if 0 < number < 1 else number
        raise ValueError(f"a share needs a percent sign: write {meant:g}%")
    found = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a share such as 30%")
    return float(found[1]) / 100


def is_number(value: object) -> bool:
    """Whether it is a finite number, or text that is nothing but one."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int | float | str) and bool(_NUMBER.fullmatch(str(value)))


def bad_label(name: str) -> str:
    """Return what is wrong with a name of a region, group or deployment; empty if nothing is."""
    if _DNS_LABEL.fullmatch(name):
        return ""
    lower = name.lower()
    meant = f" (did you mean {lower}?)" if _DNS_LABEL.fullmatch(lower) else ""
    return f"names are 1 to 63 lower-case letters, digits and hyphens, no hyphen at an end{meant}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean ...?)` with the nearest known name, or nothing."""
    return "".join(f" (did you mean {near}?)" for near in nearest(name, known))


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return the known name that `name` is like, in a list; an empty one if there is none."""
    return get_close_matches(name[:100], list(known), n=1)  # names are shorter


@dataclass(frozen=True, slots=True)
class Duration:
    """Annotation of a field in milliseconds; `low` and `high` are spelt as in the file."""

    low: str
    high: str
    whole: bool = True  # whole milliseconds, as an int

    def parse(self, value: object) -> float:
        """Read and bound. Raises ValueError."""
        found = duration_ms(value)
        if not duration_ms(self.low) <= found <= duration_ms(self.high):
            raise ValueError(f"must be {self.low} to {self.high}")
        if not self.whole:
            return found
        if found != int(found):
            raise ValueError("must be whole milliseconds")
        return int(found)

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, _handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        low, high = duration_ms(self.low), duration_ms(self.high)
        return {
            "type": "string",
            "pattern": f"^{DURATION_PATTERN}$",
            "description": f"A duration of {self.low} to {self.high}.",
            "examples": [each for each in _EXAMPLES if low <= duration_ms(each) <= high],
        }


@dataclass(frozen=True, slots=True)
class Share:
    """Annotation of a field that holds a fraction, written in percent, of at most `high`."""

    high: str = "100%"

    def parse(self, value: object) -> float:
        """Read and bound. Raises ValueError."""
        found = share(value)
        if found > share(self.high):
            raise ValueError(f"must be 0% to {self.high}")
        return found

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, _handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "type": "string",
            "pattern": f"^{SHARE_PATTERN}$",
            "description": f"A share of 0% to {self.high}.",
            "examples": ["30%"],
        }
