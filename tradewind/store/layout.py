"""How a packed spec rests in a record: without what the record, or everybody, says anyway.

Queue and name stand in fields of their own, since scripts read them; most tasks have nothing in
their StoredSpec beside the TaskSpec, and most TaskSpecs nothing beside the payload. What is left
out is written into the first byte, so that a reader gets back what was stored, byte for byte:

- 0xE0 + flags: a StoredSpec whose TaskSpec begins with its queue (1) and name, or with its name.
  Alone (2): there is nothing behind the TaskSpec. Payload (4): nor in the TaskSpec behind name and
  payload, but (8) what admission fills in: JSON and normal priority. Only what is not left out
  follows: the payload, or the rest of the TaskSpec, or that with its length and what was behind it.
  Payload and what is filled in, but not alone: more of the TaskSpec stands behind them, and follows
  the payload with its length. Nothing is behind the TaskSpec.
- 0xD0 + flags: the same, of a task from the region that holds it, and nothing behind its TaskSpec:
  `origin_region`, the last field there, is left out, too.
- 0xF0: what follows is as it came, as is any other text that begins below 0xD0 or above 0xF0.

Of a 200-byte payload's 251 bytes this leaves 201, and with them its record in a smaller block.
"""

from functools import lru_cache

_QUEUE, _ALONE, _PAYLOAD, _USUAL = 1, 2, 4, 8
_FROM_HERE, _SLIM, _AS_IT_CAME = 0xD0, 0xE0, 0xF0
_MARKS = range(_FROM_HERE, _AS_IT_CAME + 1)
_PAYLOAD_ALONE = frozenset(
    mark + _ALONE + _PAYLOAD + flags
    for mark in (_FROM_HERE, _SLIM)
    for flags in (0, _QUEUE, _USUAL, _QUEUE | _USUAL)
)
_FIRST = tuple(bytes([mark]) for mark in range(256))
_SPEC, _PAYLOAD_TAG = 0x0A, b"\x1a"  # StoredSpec.spec and TaskSpec.payload: fields 1 and 3, bytes
# TaskSpec.content_type and priority, fields 4 and 5: JSON and normal, as admission fills them in.
_AS_USUAL = b"\x22\x10application/json\x28\x02"


def slim(packed: bytes, queue: str, name: str, region: str) -> bytes:
    """What `whole` makes `packed` of again, for the Redis of `region`."""
    if not packed or packed[0] != _SPEC:
        return b"\xf0" + packed if packed and packed[0] in _MARKS else packed
    begin, end = _length(packed, 1)
    with_queue, without = _heads(queue, name)
    flags = _QUEUE if packed.startswith(with_queue, begin) else 0
    head = with_queue if flags else without
    if not packed.startswith(head, begin) or not begin + len(head) <= end <= len(packed):
        return packed
    begin += len(head)
    if end < len(packed):
        return _FIRST[_SLIM | flags] + varint(end - begin) + packed[begin:]
    origin = _origin(region)
    if packed.endswith(origin) and begin + len(origin) <= end:
        return _alone(packed[: -len(origin)], begin, _FROM_HERE | flags)
    return _alone(packed, begin, _SLIM | flags)


def _alone(packed: bytes, begin: int, flags: int) -> bytes:
    """Of a TaskSpec with nothing behind it what comes after its name, at `begin`, up to its end."""
    if packed.startswith(_PAYLOAD_TAG, begin):
        first, last = _length(packed, begin + 1)
        if last == len(packed):
            return _FIRST[flags | _ALONE | _PAYLOAD] + packed[first:]
        if packed.startswith(_AS_USUAL, last):
            more = packed[last + len(_AS_USUAL) :]
            if not more:
                return _FIRST[flags | _ALONE | _PAYLOAD | _USUAL] + packed[first:last]
            return _FIRST[flags | _PAYLOAD | _USUAL] + packed[begin + 1 : last] + more
    return _FIRST[flags | _ALONE] + packed[begin:]


def whole(stored: bytes, queue: str, name: str, region: str) -> bytes:
    """The packed spec that `slim` was given."""
    if not stored or stored[0] not in _MARKS:
        return stored
    if stored[0] == _AS_IT_CAME:
        return stored[1:]
    flags, rest = stored[0] & 0x0F, stored[1:]
    behind = _origin(region) if stored[0] < _SLIM else b""  # of the TaskSpec
    if flags & _PAYLOAD and flags & _ALONE:
        if flags & _USUAL:
            behind = _AS_USUAL + behind
        return _before_payload(queue, name, flags & _QUEUE, len(rest), len(behind)) + rest + behind
    with_queue, without = _heads(queue, name)
    head = with_queue if flags & _QUEUE else without
    if flags & _PAYLOAD:
        _, end = _length(stored, 1)
        rest = _PAYLOAD_TAG + stored[1:end] + _AS_USUAL + stored[end:]
    elif not flags & _ALONE:
        begin, end = _length(stored, 1)
        rest = stored[begin:end]
        return b"\x0a" + varint(len(head) + len(rest)) + head + rest + stored[end:]
    return b"\x0a" + varint(len(head) + len(rest) + len(behind)) + head + rest + behind


def payload_alone(stored: bytes) -> bytes | None:
    """The payload of a task that has nothing for its handler beside it, its queue and its name."""
    return stored[1:] if stored and stored[0] in _PAYLOAD_ALONE else None


def varint(value: int) -> bytes:
    """Protobuf's base-128 number, lowest group first."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    return bytes((value & 0x7F | 0x80,)) + varint(value >> 7)


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Where what has its length at `at` begins and ends; past the end of `data` if it is cut."""
    if at + 1 < len(data):  # nearly all take one byte or two
        low, high = data[at], data[at + 1]
        if low < 0x80:
            return at + 1, at + 1 + low
        if 0 < high < 0x80:
            return at + 2, at + 2 + (low & 0x7F | high << 7)
    value = shift = 0
    for place in range(at, min(at + 5, len(data))):
        value |= (data[place] & 0x7F) << shift
        if data[place] < 0x80:
            # A length that is spelled longer than need be would not come back as it was.
            return (place + 1, place + 1 + value) if place == at or data[place] else (at, 1 << 62)
        shift += 7
    return at, 1 << 62


@lru_cache(maxsize=1024)
def _before_payload(queue: str, name: str, says_queue: int, size: int, behind: int) -> bytes:
    """What stands in front of a payload of `size` bytes: the same for many tasks."""
    with_queue, without = _heads(queue, name)
    head = (with_queue if says_queue else without) + _PAYLOAD_TAG + varint(size)
    return b"\x0a" + varint(len(head) + size + behind) + head


@lru_cache(maxsize=64)
def _origin(region: str) -> bytes:
    """TaskSpec.origin_region: field 18, the last."""
    name = region.encode()
    return b"\x92\x01" + varint(len(name)) + name


@lru_cache(maxsize=1024)
def _heads(queue: str, name: str) -> tuple[bytes, bytes]:
    """How a TaskSpec of this queue and name begins: fields 1 and 2."""
    q, n = queue.encode(), name.encode()
    called = b"\x12" + varint(len(n)) + n
    return b"\x0a" + varint(len(q)) + q + called, called
