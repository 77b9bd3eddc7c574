"""Headers are data: what they say is what the scripts do."""

import re
from typing import Protocol

import pytest

from tradewind import ports
from tradewind.state import Mark, State
from tradewind.store import scripts
from tradewind.store.scripts import Script

NAMES = scripts.names()
# Scripts that create work are refused by a full Redis; all others must go on emptying it.
REFUSED_WHEN_FULL = {"enqueue", "import_task", "progress", "redrive", "reserve"}
READ_ONLY = {"control", "moving", "oldest", "outbox", "stranded", "workers"}
# What a store does without a script: plain reads, subscriptions, blocking.
PLAIN = {
    *("read", "changes", "dead_page", "dead_total", "counts", "lanes", "unsettled", "wait"),
    *("evacuated", "audited"),
    "cancels",
    *("together", "scan", "indexed"),
    *("now_ms", "held"),
    *("is_moving", "remembered", "parked"),
    *("lacks", "tasks_safe", "entry_safe"),  # a seal is, and all of them share that
    "farewell",  # a heartbeat without a report
}
GREETING = {"identity"}  # run on each new connection, by nodes.py
REDIS_WORDS = {"COUNT", "LIMIT", "LPUSH", "MAXLEN", "NX", "PX", "RPUSH", "WITHSCORES", "ZREM"}


def body(name: str) -> str:
    """The script as Redis gets it, without comments."""
    source = scripts.load(name).source.decode()
    return "\n".join(line.partition("--")[0] for line in source.splitlines()[1:])


def own_body(name: str) -> str:
    """The script's own part, without its includes and comments."""
    folder = scripts.files("tradewind.store") / "lua"
    text = (folder / f"{name}.lua").read_text(encoding="utf-8")
    return "\n".join(line.partition("--")[0] for line in text.splitlines()[1:])


def shebang(name: str) -> str:
    return scripts.load(name).source.decode().partition("\n")[0]


def slots(pattern: str, text: str) -> set[int]:
    return {int(n) for n in re.findall(pattern, text)}


def is_batch(script: Script) -> bool:
    return bool(script.each_keys or script.each_args)


BATCHES = [name for name in NAMES if is_batch(scripts.load(name))]


@pytest.mark.parametrize("name", NAMES)
def test_every_listed_slot_is_used_and_no_other(name: str) -> None:
    script = scripts.load(name)
    # lib/ready.lua spells the name of a ready list itself; the slot declares it to Redis.
    keys = {n for n, slot in enumerate(script.keys, 1) if slot != "ready"}
    assert slots(r"KEYS\[(\d+)\]", own_body(name)) == keys
    assert slots(r"ARGV\[(\d+)\]", own_body(name)) == set(range(1, len(script.args) + 1))


@pytest.mark.parametrize("name", BATCHES)
def test_items_begin_behind_the_listed_slots(name: str) -> None:
    script, text = scripts.load(name), own_body(name)
    assert slots(r"#KEYS - (\d+)", text) == {len(script.keys)}
    assert min(slots(r"(\d+) \+ i \* KEYS_EACH", text)) == len(script.keys) + 1
    assert min(slots(r"(\d+) \+ i \* ARGV_EACH", text)) == len(script.args) + 1


@pytest.mark.parametrize("name", BATCHES)
def test_an_item_has_as_many_slots_as_the_header_lists(name: str) -> None:
    script = scripts.load(name)
    declared = re.search(r"local KEYS_EACH, ARGV_EACH(?:, \w+)? = (\d+), (\d+)", own_body(name))
    assert declared is not None
    assert [int(n) for n in declared.groups()] == [len(script.each_keys), len(script.each_args)]
    assert max({0, *slots(r"ARGV\[a \+ (\d+)\]", body(name))}) < len(script.each_args)


@pytest.mark.parametrize("name", NAMES)
def test_replies_carry_the_tags_of_the_header_and_no_others(name: str) -> None:
    listed = set(scripts.load(name).tags)
    text = body(name)
    assert set(re.findall(r"(?:return|item =|reply =|or|and) \{ '(\w+)'", text)) <= listed
    assert {tag for tag in listed if f"'{tag}'" not in text} == set()


@pytest.mark.parametrize("name", NAMES)
def test_every_state_literal_is_a_state_or_a_mark(name: str) -> None:
    text = re.sub(r"redis\.p?call\('\w+'", "", body(name))
    words = set(re.findall(r"'([A-Z][A-Z_]+)'", text)) - REDIS_WORDS
    assert words <= {*State, *Mark}


@pytest.mark.parametrize("name", NAMES)
def test_flags_let_a_full_redis_empty_itself_and_refuse_new_work(name: str) -> None:
    if name in REFUSED_WHEN_FULL:
        expected = "#!lua"
    elif name in READ_ONLY:
        expected = "#!lua flags=no-writes"
    else:
        expected = "#!lua flags=allow-oom"
    assert shebang(name) == expected


def test_every_port_method_is_a_script_of_its_name_and_the_other_way_round() -> None:
    methods = {
        name
        for port in vars(ports).values()
        if isinstance(port, type) and Protocol in port.__bases__
        for name, member in vars(port).items()
        if not name.startswith("_") and callable(member)
    }
    assert methods - PLAIN == set(NAMES) - GREETING


@pytest.mark.parametrize("name", NAMES)
def test_no_script_looks_for_keys_or_unpacks_without_bound(name: str) -> None:
    assert re.findall(r"call\('(?:KEYS|SCAN|SMEMBERS|HVALS)'", body(name)) == []
    unpacked = set(re.findall(r"unpack\(([^()]+)\)", body(name)))
    assert unpacked <= {
        *("deaths[t.queue] or deaths['']", "due", "found.ids", "gone"),
        *("keys", "c.leased"),  # of the lists of a worker's queues, of at most 256 claims
        "members, first, last",  # a piece: see lib/pieces
        *("fields", "s.fields", "NUMBERS"),  # of one record
    }
