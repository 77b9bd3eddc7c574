"""Messages that nobody would send: built from the descriptors, then damaged. The same for a seed.

Every field of a message type is found by its descriptor, so a new field is fuzzed from the day on
which it is added. Values are the borders of what is allowed, and what tends to be forgotten.
"""

import random
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tradewind import ids, limits

_I63, _I31 = 2**63, 2**31
_TEXTS = (
    *("", "a", "default", "eu", "us", "mars", "eu-west", "us-east", "nowhere", "email.send"),
    *("*", "..", "a b", "a/b:c_d-e.f", "{003}", "tw:{003}:t:x", "\x00", "\n", "\r\nSET x y\r\n"),
    *("é", "日本", "\U0001f600", "\u202e", "\ufeff", "\ufffe", "NaN", "null", "{}", "' OR 1=1 --"),
    *("a" * limits.MAX_NAME_BYTES, "a" * (limits.MAX_NAME_BYTES + 1), "é" * 150),
    *(
        "k" * limits.MAX_KEY_BYTES,
        "k" * (limits.MAX_KEY_BYTES + 1),
        "application/json",
        "text/plain",
    ),
)
_BODIES = (
    *(b"", b"{}", b"[]", b"null", b"0", b'{"a": 1}', b'{"a": 1, "a": 2}', b'{"b":1,"a":[1,2.50]}'),
    *(
        b"NaN",
        b"-0",
        b"1e400",
        b"9" * 400,
        b"{",
        b'"\\ud800"',
        b'"\xff"',
        b"\x00",
        b"\xef\xbb\xbf{}",
    ),
    *(b"[" * 100_000, b"[" * 200 + b"]" * 200, b'{"a":' * 50 + b"1" + b"}" * 50, b"\x80" * 64),
)
_NUMBERS = (
    0,
    1,
    2,
    3,
    4,
    7,
    255,
    limits.MAX_ATTEMPTS,
    limits.MAX_ATTEMPTS + 1,
    _I31 - 1,
    2**32 - 1,
)
_SECONDS = (0, 0, 1, 60, -1, 30 * 86_400, 30 * 86_400 + 1, 253_402_300_799, _I63 - 1, -_I63)
_NANOS = (0, 0, 1, -1, 999_999_999, 1_000_000_000, _I31 - 1, -_I31)
_BIG_ONE_IN = 400  # messages of a megabyte are slow to make; they are there all the same
_PLAIN_ONE_IN = 4  # as they come from a client that means well

Values = Callable[[random.Random], Any]


def filled(message: Message, rng: random.Random) -> Message:
    """Fill some of the fields, whatever the type."""
    fields = _fields(message)
    for field in rng.sample(fields, rng.randint(0, len(fields))):
        _fill(message, field, rng)
    return message


def _fields(message: Message) -> list[Any]:
    return list(message.DESCRIPTOR.fields)


def _fill(message: Message, field: FieldDescriptor, rng: random.Random) -> None:
    kind = field.message_type
    value: Any = getattr(message, field.name)
    if kind is not None and kind.GetOptions().map_entry:
        for _ in range(rng.choice((0, 1, 2, 3, limits.MAX_LABELS, limits.MAX_LABELS + 1))):
            value[_text(rng) + str(rng.randint(0, 99))] = _text(rng)
    elif kind is not None and not field.is_repeated:
        _fill_time(value, rng) if kind.full_name.startswith("google.") else filled(value, rng)
    elif kind is not None:
        for _ in range(rng.choice((0, 1, 1, 2, 5))):
            filled(value.add(), rng)
    elif field.is_repeated:
        value.extend(_scalar(field, rng) for _ in range(rng.choice((0, 1, 2, 40))))
    else:
        setattr(message, field.name, _scalar(field, rng))


def _fill_time(value: Any, rng: random.Random) -> None:
    value.seconds, value.nanos = rng.choice(_SECONDS), rng.choice(_NANOS)
    if rng.random() < 0.3:  # near now, where it is hardest to tell
        value.seconds = 1_796_000_000 + rng.randint(-5, 10**8)


def _scalar(field: FieldDescriptor, rng: random.Random) -> Any:
    if field.type == FieldDescriptor.TYPE_STRING:
        return _text(rng)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _body(rng)
    if field.type == FieldDescriptor.TYPE_ENUM:
        return rng.choice((0, 1, 2, 3, 4, 99, -1, _I31 - 1))
    return rng.choice(_NUMBERS)


def _text(rng: random.Random) -> str:
    if rng.random() < 0.2:
        return "".join(
            chr(rng.choice((rng.randint(1, 127), rng.randint(1, 0xD7FF)))) for _ in range(8)
        )
    return rng.choice(_TEXTS)


def _body(rng: random.Random) -> bytes:
    if rng.randrange(_BIG_ONE_IN) == 0:
        return b'"' + b"x" * (limits.MAX_PAYLOAD_BYTES + rng.randint(-4, 4)) + b'"'
    return rng.choice(_BODIES) if rng.random() < 0.8 else rng.randbytes(rng.randint(0, 64))


def plain(spec: Any, rng: random.Random) -> None:
    """A submit as it should be, with a key that others have, too."""
    spec.name, spec.payload = "email.send", b'{"n": %d}' % rng.randint(0, 3)
    if rng.random() < 0.5:
        spec.idempotency_key = f"key-{rng.randint(0, 200)}"
    if rng.random() < 0.5:
        spec.request_id = f"request-{rng.randint(0, 10**6)}"
    for field in rng.sample(_fields(spec), rng.choice((0, 0, 1, 2))):
        _fill(spec, field, rng)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes with some of them flipped, cut, repeated or put in."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(found))
        match rng.randrange(5):
            case 0 if found:
                found[at % len(found)] ^= 1 << rng.randrange(8)
            case 1:
                del found[at : at + rng.randint(1, 8)]
            case 2:
                found[at:at] = rng.randbytes(rng.randint(1, 8))
            case 3:
                found[at:at] = found[at : at + rng.randint(1, 64)]
            case _:
                found[at:at] = bytes([0x80] * rng.randint(1, 12))  # a varint without an end
    return bytes(found)


def message(kind: type[Message], rng: random.Random) -> bytes:
    """One serialised message of a type: half of them damaged afterwards."""
    made = filled(kind(), rng)
    for spec in _specs(made):
        if rng.randrange(_PLAIN_ONE_IN) != 0:
            spec.Clear()
            plain(spec, rng)
    data = made.SerializeToString()
    return damaged(data, rng) if rng.random() < 0.5 else data


def _specs(made: Any) -> list[Any]:
    names = {field.name for field in _fields(made)}
    if "spec" in names:
        return [made.spec]
    return list(made.specs) if "specs" in names else []


def task_id(rng: random.Random, known: list[str]) -> str:
    """An id: one of a task, one of none, or nothing like one."""
    match rng.randrange(4):
        case 0 if known:
            return rng.choice(known)
        case 1:
            region = rng.choice(("eu-west", "us-east", "ap-south", "nowhere"))
            place, number = rng.randrange(16), rng.getrandbits(48)
            return ids.mint(rng.getrandbits(40), ids.region_code(region), place, number)
        case 2 if known:
            return damaged(rng.choice(known).encode(), rng).decode(errors="ignore")
        case _:
            return _text(rng)
