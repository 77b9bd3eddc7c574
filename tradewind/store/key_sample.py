"""Keys that nobody would ever remove: no TTL, and no task that they belong to. A bounded look."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast

from tradewind.doctor import KeySample
from tradewind.errors import StoreError
from tradewind.store.link import Reply
from tradewind.store.ownership import is_ours, is_owner, is_record, is_task_s, place_of, tasks_in

Ask = Callable[[Sequence[Sequence[Any]]], Awaitable[list[Reply]]]

KEYS_A_NODE: Final = 2_000  # some 50 ms of a node, in steps
_STEP: Final = 250  # keys a command looks at
_MEMBERS: Final = 128  # of a list or set that are looked up; of a longer one nothing is said
_SHOWN: Final = 5


async def key_sample(nodes: Sequence[Ask]) -> KeySample:
    """Look at some keys of each node; a node that stops answering is left out."""
    looked_at = in_all = 0
    ownerless: list[str] = []
    foreign: list[str] = []
    for ask in nodes:
        try:
            keys, size = await _scan(ask)
            ours = [key for key in keys if is_ours(key)]
            found = await _ownerless(ask, ours)
            ownerless += await _ownerless(ask, found) if found else []  # not just between two looks
        except StoreError:
            continue
        looked_at, in_all = looked_at + len(keys), in_all + size
        foreign += [key for key in keys if not is_ours(key)]
    return KeySample(
        looked_at,
        in_all,
        foreign=tuple(foreign[:_SHOWN]),
        foreign_count=len(foreign),
        ownerless=tuple(sorted(ownerless)),
    )


async def _scan(ask: Ask) -> tuple[list[str], int]:
    (size,) = await ask([["DBSIZE"]])
    keys: dict[str, None] = {}
    cursor = "0"
    while len(keys) < KEYS_A_NODE:
        (page,) = await ask([["SCAN", cursor, "COUNT", _STEP]])
        if not isinstance(page, list):  # not allowed
            break
        following, found = cast("tuple[bytes, list[bytes]]", page)
        keys |= dict.fromkeys(key.decode(errors="replace") for key in found)
        cursor = following.decode()
        if cursor == "0":
            break
    return list(keys), size if isinstance(size, int) else 0


async def _ownerless(ask: Ask, keys: Sequence[str]) -> list[str]:
    wanted = [key for key in keys if is_task_s(key) and not is_record(key) and not is_owner(key)]
    ttls = await ask([["TTL", key] for key in wanted])
    lasting = [key for key, ttl in zip(wanted, ttls, strict=True) if ttl == -1]
    kinds = await ask([["TYPE", key] for key in lasting])
    kind_of = {
        key: kind.decode()
        for key, kind in zip(lasting, kinds, strict=True)
        if isinstance(kind, bytes) and kind != b"none"  # gone meanwhile
    }
    named = await _named(ask, kind_of)
    checks = [(key, task_id) for key, ids in named.items() for task_id in ids]
    # An import is remembered until it is settled, with or without its task.
    asked = [
        command
        for key, task_id in checks
        for command in (
            ["EXISTS", f"{place_of(key)}}}:t:{task_id}"],
            ["ZSCORE", f"{place_of(key)}}}:imports", task_id],
        )
    ]
    answers = await ask(asked)
    owned = {
        key
        for (key, _), exists, score in zip(checks, answers[::2], answers[1::2], strict=True)
        if exists == 1 or isinstance(score, bytes)
    }
    return [key for key in named if key not in owned]


async def _named(ask: Ask, kind_of: Mapping[str, str]) -> dict[str, set[str]]:
    """The tasks that each key names; one that went meanwhile, or names too many, is left out."""
    some = {
        key: [{"list": "LRANGE", "zset": "ZRANGE"}[kind], key, 0, _MEMBERS]
        for key, kind in kind_of.items()
        if kind in {"list", "zset"}
    }
    answers = dict(zip(some, await ask(list(some.values())), strict=True))
    named: dict[str, set[str]] = {}
    for key, kind in kind_of.items():
        answer = answers.get(key, [])
        members = cast("list[bytes]", answer) if isinstance(answer, list) else []
        if key in some and not 0 < len(members) <= _MEMBERS:
            continue  # what lives may stand behind them
        named[key] = tasks_in(key, kind, [each.decode(errors="replace") for each in members])
    return named
