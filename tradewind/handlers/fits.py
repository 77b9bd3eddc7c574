"""Where a hint stands decides what it may be: as a key of an object, or as an element of a set.

JSON has texts as keys only, and Python takes neither lists nor dicts as elements of sets. A hint
that asks for the impossible would register, and every task but one with an empty value would be
rejected.
"""

import dataclasses
import enum
import types
import uuid
from collections import abc
from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    LiteralString,
    NewType,
    Union,
    cast,
    get_args,
    get_origin,
    is_typeddict,
)

LISTS: Final = frozenset(
    {list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection, abc.Container}
)
SETS: Final = {set: set, frozenset: frozenset, abc.Set: frozenset, abc.MutableSet: set}
DICTS: Final = frozenset({dict, abc.Mapping, abc.MutableMapping})

_TEXTS: Final = frozenset(
    {Any, object, str, LiteralString, Decimal, uuid.UUID, datetime, date, time}
)
_MUTABLE: Final = frozenset({*LISTS, *DICTS, *(kind for kind in SETS if SETS[kind] is set)})


def is_hashable(hint: Any) -> bool:
    """Whether a value that the hint asks for can be in a set, or a key; of a union each.

    Of `Any`, and of the members of a class, that shows only when a task comes.
    """
    hint = _bare(hint)
    args = get_args(hint)
    if _is_union(hint) or _kind(hint) is tuple:
        return all(is_hashable(arg) for arg in args if arg is not ...)
    if _kind(hint) in _MUTABLE or is_typeddict(hint):
        return False
    return not isinstance(hint, type) or hint in {object, Any} or _has_hash(hint)


def reads_text(hint: Any) -> bool:
    """Whether the hint takes some JSON text; of a union any."""
    hint = _bare(hint)
    if _is_union(hint):
        return any(reads_text(arg) for arg in get_args(hint))
    if get_origin(hint) is Literal:
        return _has_text(get_args(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _has_text(hint)
    plain = cast("Any", hint)
    if dataclasses.is_dataclass(plain) or get_origin(plain) is not None:
        return False
    return plain in _TEXTS or callable(getattr(plain, "model_validate", None))


def is_json(value: Any) -> bool:
    """Whether a member of a Literal or an Enum is equal to something that JSON can say."""
    plain: Any = value.value if isinstance(value, enum.Enum) else value
    return plain is None or type(plain) in {bool, int, float, str, list, dict}


def _bare(hint: Any) -> Any:
    """The hint behind its other names."""
    while True:
        if get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":  # `type X = ...`, Python 3.12
            hint = hint.__value__
        else:
            return hint


def _kind(hint: Any) -> Any:
    return get_origin(hint) or hint


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in {Union, types.UnionType}


def _has_hash(hint: type) -> bool:
    return cast("Any", hint).__hash__ is not None  # None: compares by value, and may change


def _has_text(members: Iterable[Any]) -> bool:
    return any(isinstance(m.value if isinstance(m, enum.Enum) else m, str) for m in members)
