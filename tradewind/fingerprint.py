"""The identity of a task: canonical JSON, its fingerprint and the keys of the ledger. Pure.

Two submits are the same work when their fingerprints are equal, so everything here must answer
the same in every process, on every machine and in every release: no `hash()`, no locale, no
interpreter setting. A change of any byte that is hashed is a new domain tag.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate
from json.encoder import encode_basestring as _quote
from typing import Any, NoReturn

# Containers open at once. Our choice: payloads nest below 10, recursive parsers die near 1,000.
MAX_DEPTH = 64
# CPython's default limit for reading an integer: a handler could not read a longer one either.
# Fixed here, because PYTHONINTMAXSTRDIGITS may differ between two routers.
MAX_NUMBER_CHARS = 4_300
DIGEST_BYTES = 16  # 128 bits tell apart the payloads of one key; the fingerprint itself keeps 256.

_EXACT_BELOW = 2**53  # Below it every integer is a double (RFC 7493 section 2.2).
_PLAIN_FLOAT_FROM = 1e-4  # From here up to 2**53 Python's repr is the ES6 spelling.
_ES6_MAX_POINT, _ES6_MIN_POINT = 21, -6  # ECMA-262 Number::toString: positional between these.
_LONG_RUN = b"0" * (_ES6_MAX_POINT + 1)  # An integer this long takes an exponent.

_DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_ASTRAL = re.compile(rb"[\xf0-\xf4]")  # UTF-8 lead bytes from U+10000
_ABOVE_SURROGATES = re.compile(rb"[\xee\xef]")  # ... and of U+E000 to U+FFFF
# Possessive and with an optional end, so that an unclosed string costs one pass, not n.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKET_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # +1 and -1 as signed bytes
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))


class PayloadNotCanonical(ValueError):
    """The payload has no canonical form. `problem` is a sentence without any of its content."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class Body:
    """A payload read once: what identifies it. Make it with `read_body`.

    Most submits need no more of it than that it can be read, so its one spelling is made when it is
    asked for.
    """

    __slots__ = ("_data", "_value", "kind")

    def __init__(self, kind: bytes, data: bytes | None, value: Any = None) -> None:
        """`value` is what the JSON says, unless `data`, its one spelling, is known already."""
        self.kind = kind  # b"json" or b"raw": the same bytes under another kind are other arguments
        self._data, self._value = data, value

    @property
    def data(self) -> bytes:
        """Canonical JSON, or the payload as it came."""
        if self._data is None:
            self._data, self._value = _spelled(self._value), None
        return self._data

    def digest(self) -> bytes:
        """16 bytes that tell payloads apart under one idempotency key or request id."""
        return _digest(b"tradewind/payload/1", self.kind, self.data)[:DIGEST_BYTES]


def read_body(payload: bytes, content_type: str) -> Body:
    """Canonical JSON for application/json, the raw bytes for anything else.

    Raises PayloadNotCanonical if the payload says it is JSON and is not.
    """
    if not is_json(content_type):
        return Body(b"raw", payload)
    # Only an escape can be half of a surrogate pair, which spelling finds.
    if payload and b"\\u" not in payload and _LONG_RUN not in payload.translate(_DIGITS_TO_ZERO):
        text = _text(payload)
        _refuse_depth(payload)
        try:
            value, end = _SCAN(text, 0)
            if end == len(text):  # no blanks around it
                return Body(b"json", None, value)
        except (_NeedsExactError, json.JSONDecodeError, StopIteration):
            pass  # the long way knows what to do, or to say
    return Body(b"json", canonical_json(payload))


@lru_cache(maxsize=256)  # callers use few, and each is asked about at every submit
def is_json(content_type: str) -> bool:
    """True for application/json in any case, with any parameters (RFC 9110 section 8.3.1)."""
    return content_type.partition(";")[0].strip().lower() == "application/json"


def fingerprint(
    *, tenant: str, queue: str, name: str, key: str | None, payload: bytes, content_type: str
) -> bytes:
    """Return the 32-byte SHA-256 that is equal for the same work (docs/dedup.md).

    With a `key` the payload is not looked at. Raises PayloadNotCanonical as `read_body` does,
    and ValueError for an empty key: it would make every task of a handler the same one.
    """
    identity = read_body(payload, content_type) if key is None else key
    return fingerprint_of(tenant=tenant, queue=queue, name=name, identity=identity)


def fingerprint_of(*, tenant: str, queue: str, name: str, identity: str | Body) -> bytes:
    """`fingerprint` for a caller that has read the body already, or has an idempotency key."""
    if isinstance(identity, Body):
        kind, data = identity.kind, identity.data
    elif identity:
        kind, data = b"key", identity.encode()
    else:
        message = "an idempotency key must not be empty; pass None for no key"
        raise ValueError(message)
    scope = (tenant.encode(), queue.encode(), name.encode())
    return _digest(b"tradewind/fingerprint/1", *scope, kind, data)


def payload_digest(payload: bytes, content_type: str) -> bytes:
    """Return the 16-byte digest of the canonical payload. Raises as `read_body` does."""
    return read_body(payload, content_type).digest()


def ledger_key_business(
    tenant: str, queue: str, name: str, fence: Sequence[str], fingerprint: bytes
) -> bytes:
    """Return the 32-byte ledger key of an idempotency key or payload, in its scope and fence.

    The fence is a set: order and repeats of its groups do not matter.
    """
    groups = [group.encode() for group in sorted(set(fence))]
    scope = (tenant.encode(), queue.encode(), name.encode(), len(groups).to_bytes(8, "big"))
    return _digest(b"tradewind/ledger/business/1", *scope, *groups, fingerprint)


def ledger_key_request(tenant: str, request_id: str) -> bytes:
    """Return the 32-byte ledger key of one logical submit, which its client may repeat."""
    return _digest(b"tradewind/ledger/request/1", tenant.encode(), request_id.encode())


def done_key(ledger_key: bytes, digest: bytes) -> bytes:
    """Return the 32-byte key of a done mark: of a submit's ledger key and its payload's digest.

    Where two payloads came to run under one key, neither may be answered with the other's result.
    """
    return _digest(b"tradewind/done/1", ledger_key, digest)


def canonical_json(payload: bytes) -> bytes:
    """Return the one spelling of a JSON text (RFC 8785), so that equal values are equal bytes.

    Keys are sorted by UTF-16 code units; spacing, escapes and key order do not matter; array
    order, string normalisation, and null versus missing do. An empty payload is allowed and
    stays empty: a handler without arguments. Numbers are decimals in ES6 spelling:

    - A number that is whole as written is exact at any size, however it is spelled: 1, 1.0 and
      1e0 are one number, so are 1e21 and its 22 digits, and 2**53 + 1 is not 2**53. Here we
      differ from RFC 8785, which rounds to a double: it would take two ids for one.
    - Any other is the nearest double in its shortest decimal: 0.1 and 0.10000000000000001 are
      one number, and 1e-400 is 0.
    - A fraction or exponent past the largest double (1e400) is refused: handlers would get inf.

    Raises PayloadNotCanonical: not UTF-8, byte order mark, not JSON, NaN or Infinity, duplicate
    keys, lone surrogates, more than 64 levels, a number over 4,300 characters or out of range.
    """
    if not payload:
        return b""
    text = _text(payload)
    _refuse_depth(payload)
    try:
        if _LONG_RUN in payload.translate(_DIGITS_TO_ZERO):
            return _canonical_exact(text)
        return _spelled(_FAST.decode(text))
    except _NeedsExactError:
        return _canonical_exact(text)
    except json.JSONDecodeError as error:
        raise _not_json(error) from None
    except UnicodeEncodeError:
        raise _lone_surrogate() from None


def _spelled(value: Any) -> bytes:
    """Spell what `_FAST` has read."""
    canonical = _ENCODER.encode(value).encode()
    # Code points and UTF-16 code units sort apart only between these two ranges.
    if (
        not canonical.isascii()
        and _ASTRAL.search(canonical)
        and _ABOVE_SURROGATES.search(canonical)
    ):
        return _canonical_exact(canonical.decode())
    return canonical


def _text(payload: bytes) -> str:
    if payload.startswith(b"\xef\xbb\xbf"):
        raise PayloadNotCanonical("JSON must not start with a byte order mark; send plain UTF-8")
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise PayloadNotCanonical(f"JSON must be UTF-8; byte {error.start} is not") from None


def _refuse_depth(payload: bytes) -> None:
    """Count brackets outside strings, before a parser recurses into them."""
    if payload.count(b"[") + payload.count(b"{") <= MAX_DEPTH:
        return
    steps = _STRING.sub(b"", payload).translate(_BRACKET_STEPS, _NOT_BRACKETS)
    if max(accumulate(memoryview(steps).cast("b")), default=0) > MAX_DEPTH:
        raise PayloadNotCanonical(f"JSON is nested more than {MAX_DEPTH} levels deep")


class _NeedsExactError(Exception):
    """The fast path met a number that Python spells differently from ES6."""


class _Number(str):
    """A number in its canonical spelling."""

    __slots__ = ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise PayloadNotCanonical("an object in the JSON has the same key twice")
    return members


def _constant(_name: str) -> NoReturn:
    raise PayloadNotCanonical("JSON has no NaN and no Infinity; send null or text")


def _plain(value: float) -> float | None:
    """Return the number if its repr is its canonical spelling, an integral one as int."""
    if abs(value) < _EXACT_BELOW:
        if value.is_integer():
            return int(value)
        if abs(value) >= _PLAIN_FLOAT_FROM:
            return value
    return None


def _fast_float(token: str) -> float:
    plain = _plain(float(token))
    if plain is None:
        raise _NeedsExactError
    return plain


def _exact_float(token: str) -> float | _Number:
    _refuse_length(token)
    value = float(token)
    plain = _plain(value)
    if plain is not None:
        return plain
    if math.isinf(value):
        raise PayloadNotCanonical("a number in the JSON is outside the range of a double")
    digits, point = _decimal(token.lstrip("-").lower())
    if point < len(digits.rstrip("0")):  # not whole as written
        digits, point = _decimal(repr(abs(value)))
    return _es6(digits, point, negative=value < 0)


def _decimal(spelled: str) -> tuple[str, int]:
    """Read a number as 0.`digits` times 10**`point`."""
    mantissa, _, exponent = spelled.partition("e")
    whole, _, fraction = mantissa.partition(".")
    # By way of float, which reads any number of leading zeros whatever the interpreter's limit.
    return whole + fraction, len(whole) + int(float(exponent or 0))


def _exact_int(token: str) -> int | _Number:
    if len(token) <= _ES6_MAX_POINT:
        return int(token)
    _refuse_length(token)
    digits = token.removeprefix("-")
    return _es6(digits, len(digits), negative=token[0] == "-")


def _refuse_length(token: str) -> None:
    if len(token) > MAX_NUMBER_CHARS:
        problem = f"a number in the JSON is longer than {MAX_NUMBER_CHARS} characters; send text"
        raise PayloadNotCanonical(problem)


def _es6(digits: str, point: int, *, negative: bool) -> _Number:
    """Spell 0.`digits` times 10**`point` as ECMA-262 Number::toString does."""
    point -= len(digits) - len(digits.lstrip("0"))
    digits = digits.strip("0")
    if not digits:
        return _Number("0")  # also for -0
    if len(digits) <= point <= _ES6_MAX_POINT:
        spelled = digits.ljust(point, "0")
    elif 0 < point <= _ES6_MAX_POINT:
        spelled = f"{digits[:point]}.{digits[point:]}"
    elif _ES6_MIN_POINT < point <= 0:
        spelled = f"0.{'0' * -point}{digits}"
    else:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        spelled = f"{digits[0]}{fraction}e{point - 1:+d}"
    return _Number(f"-{spelled}" if negative else spelled)


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, check_circular=False
)
_FAST = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_fast_float, parse_constant=_constant
)
_SCAN: Callable[[str, int], tuple[Any, int]] = getattr(_FAST, "scan_once")  # noqa: B009 - no stub
_EXACT = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=_exact_float,
    parse_int=_exact_int,
    parse_constant=_constant,
)


def _canonical_exact(text: str) -> bytes:
    """Return the canonical form by way of Python: slower, for every number and every key."""
    try:
        return _spell(_EXACT.decode(text)).encode()
    except json.JSONDecodeError as error:
        raise _not_json(error) from None
    except UnicodeEncodeError:
        raise _lone_surrogate() from None


def _spell(value: Any) -> str:
    return _SPELLINGS[type(value)](value)


def _spell_object(members: dict[str, Any]) -> str:
    in_order = sorted(members.items(), key=_utf16)
    return f"{{{','.join([f'{_quote(key)}:{_spell(value)}' for key, value in in_order])}}}"


def _spell_array(items: list[Any]) -> str:
    return f"[{','.join([_SPELLINGS[type(item)](item) for item in items])}]"


_SPELLINGS: dict[type, Callable[[Any], str]] = {
    _Number: str,
    bool: {True: "true", False: "false"}.__getitem__,
    dict: _spell_object,
    float: repr,
    int: repr,
    list: _spell_array,
    str: _quote,
    type(None): lambda _: "null",
}


def _utf16(member: tuple[str, Any]) -> bytes:
    return member[0].encode("utf-16-be", "surrogatepass")


def _not_json(error: json.JSONDecodeError) -> PayloadNotCanonical:
    place = f"line {error.lineno} column {error.colno}"
    return PayloadNotCanonical(f"not valid JSON at {place}: {error.msg}")


def _lone_surrogate() -> PayloadNotCanonical:
    return PayloadNotCanonical("a string in the JSON has half of a surrogate pair")


def _digest(domain: bytes, *parts: bytes) -> bytes:
    """SHA-256 over length-prefixed parts, so that no two lists of parts read the same."""
    framed = [_length(len(domain), 8, "big"), domain]
    for part in parts:
        framed += (_length(len(part), 8, "big"), part)
    return sha256(b"".join(framed)).digest()


_length = int.to_bytes
