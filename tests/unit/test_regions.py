import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tradewind.errors import ConfigError, ConfigErrors
from tradewind.fleet import (
    Affinity,
    Backoff,
    Dedup,
    FailoverPlan,
    Fleet,
    Health,
    Match,
    QueueFailover,
    QueuePolicy,
    RedisTarget,
    Region,
    RegionLimits,
    Rule,
    Steering,
    Tls,
)
from tradewind.ids import region_code
from tradewind.regions import load, loads, warnings
from tradewind.regions.reader import MAX_FILE_BYTES

ROOT = Path(__file__).parents[2]
TWO = """\
version: 1
regions:
  eu: {redis: "redis://127.0.0.1:6401", residency: [eu]}
  us: {redis: "redis://127.0.0.1:6402", residency: [us]}
"""


def one(redis: str) -> str:
    return f"version: 1\nregions:\n  eu:\n    redis: {redis}\n"


def refused(text: str, env: dict[str, str] | None = None) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loads(text, "regions.yaml", env or {})
    return caught.value


def all_of(error: ConfigError) -> tuple[ConfigError, ...]:
    return error.errors if isinstance(error, ConfigErrors) else (error,)


# --- what a good file means


def test_the_example_at_the_root_is_what_the_contract_shows() -> None:
    fleet = load(ROOT / "regions.yaml", {})
    assert list(fleet.regions) == ["us-east", "eu-west", "ap-south"]
    assert fleet.regions["us-east"] == Region(
        "us-east",
        RedisTarget("standalone", ("127.0.0.1:6401",)),
        ("us",),
        200,
        0.8,
        RegionLimits(100_000, 30_000, 0.3),
    )
    assert fleet.rtt_ms["ap-south", "us-east"] == fleet.rtt_ms["us-east", "ap-south"] == 214
    assert len(fleet.rtt_ms) == 6
    assert fleet.rules == (
        Rule("eu-personal-data", Match(labels={"data-class": "pii-eu"}), ("eu",)),
        Rule("acme-germany", Match(tenants=("acme-de", "bank-*")), ("eu",)),
        Rule("gpu", Match(names=("gpu.*",)), prefer=("us-east", "ap-south")),
        Rule("carts", Match(queues=("carts",)), affinity=Affinity("affinity_key", "preferred")),
    )
    assert fleet.failover.order == {"us-east": ("eu-west",), "eu-west": ("us-east",)}


def test_the_example_spells_out_the_defaults_of_the_code() -> None:
    fleet = load(ROOT / "regions.yaml", {})
    assert fleet.default_queue == QueuePolicy()
    assert fleet.steering == Steering()
    assert fleet.health == Health()
    assert (fleet.partitions, fleet.panic_mode, fleet.deployment) == (
        64,
        "best_effort",
        "tradewind",
    )
    assert fleet.failover.unserved_after_ms == FailoverPlan().unserved_after_ms
    bare = loads(TWO, env={})
    assert (bare.default_queue, bare.steering, bare.health) == (
        QueuePolicy(),
        Steering(),
        Health(),
    )
    assert (bare.failover, bare.rules, bare.rtt_ms) == (FailoverPlan(), (), {})
    assert bare.regions["eu"].limits == RegionLimits()


def test_a_queue_inherits_from_default_key_by_key() -> None:
    fleet = loads(
        TWO + "queues:\n"
        "  default: {attempts: 7, backoff: {initial: 1s, max: 1m}, failover: {max_hops: 2}}\n"
        "  mail: {backoff: {max: 3m}, dedup: {by: payload}, failover: {on: [crashed]}}\n",
        env={},
    )
    mail = fleet.queue("mail")
    assert mail.attempts == 7
    assert mail.backoff == Backoff(1_000, 2.0, 180_000)
    assert mail.dedup == Dedup(by="payload")
    assert mail.failover == QueueFailover(("crashed",), 2)
    assert fleet.queue("unnamed") == fleet.default_queue
    assert fleet.default_queue.backoff == Backoff(1_000, 2.0, 60_000)


def test_an_empty_list_of_deaths_moves_none() -> None:
    fleet = loads(TWO + "queues: {default: {failover: {on: []}}}", env={})
    assert fleet.default_queue.failover.on == ()


def test_round_trips_are_symmetric_unless_both_ways_are_given() -> None:
    given = loads(TWO + "rtt: {eu: {us: 90ms}, us: {eu: 80.5ms}}", env={})
    assert given.rtt_ms == {("eu", "us"): 90.0, ("us", "eu"): 80.5}


def test_the_version_names_the_contents_and_not_their_spelling() -> None:
    version = loads(TWO, env={}).version
    assert len(version) == 12
    assert int(version, 16) >= 0
    assert loads(TWO + "# a comment\nsecurity: {}\npartitions: 64\n", env={}).version == version
    assert loads(TWO + "panic: {mode: reject}\n", env={}).version != version


def test_the_version_does_not_depend_on_secrets() -> None:
    text = one('{url: "redis://h", password: "${PW}"}')
    assert loads(text, env={"PW": "a"}).version == loads(text, env={"PW": "b"}).version


# --- C45: a region called no


def test_words_that_older_yaml_takes_for_booleans_are_region_names() -> None:
    names = ("no", "se", "on", "y", "yes", "off", "n")
    regions = "".join(
        f"  {name}: {{redis: 'redis://h:{6401 + i}', residency: [{name}]}}\n"
        for i, name in enumerate(names)
    )
    fleet = loads(f"version: 1\nregions:\n{regions}", env={})
    assert tuple(fleet.regions) == names
    assert fleet.regions["no"].residency == ("no",)
    assert fleet.inside(("no",)) == ("no",)


def test_names_that_differ_in_case_alone_are_never_merged() -> None:
    error = refused(
        "version: 1\nregions:\n  no: {redis: 'redis://a'}\n  NO: {redis: 'redis://b'}\n"
    )
    assert (error.line, error.column, error.key) == (4, 3, "regions.NO")
    assert "did you mean no?" in error.problem


def test_keys_that_are_numbers_or_booleans_in_yaml_stay_as_written() -> None:
    fleet = loads(
        "version: 1\nregions:\n  007: {redis: redis://a}\n  true: {redis: redis://b}", env={}
    )
    assert tuple(fleet.regions) == ("007", "true")


# --- where Redis is

TARGETS: dict[str, tuple[str, RedisTarget]] = {
    "a plain URL": ("redis://h", RedisTarget("standalone", ("h:6379",))),
    "port and database": (
        "redis://10.0.0.1:7000/3",
        RedisTarget("standalone", ("10.0.0.1:7000",), database=3),
    ),
    "an IPv6 address": ('"redis://[::1]:7000"', RedisTarget("standalone", ("[::1]:7000",))),
    "TLS by scheme": ("rediss://h:1", RedisTarget("standalone", ("h:1",), tls=Tls())),
    "TLS by files": (
        "{url: 'redis://h:1', tls: {ca: /ca, cert: /c, key: /k}}",
        RedisTarget("standalone", ("h:1",), tls=Tls("/ca", "/c", "/k")),
    ),
    "a unix socket": ("unix:///run/redis.sock", RedisTarget("unix", ("/run/redis.sock",))),
    "a cluster": (
        "{cluster: ['a:1', 'b:2'], username: u}",
        RedisTarget("cluster", ("a:1", "b:2"), username="u"),
    ),
    "a sentinel": (
        "{sentinel: ['a:1'], service: main, password: '${PW}'}",
        RedisTarget("sentinel", ("a:1",), "main", password="p@ss:/%41"),
    ),
    "a user and a password from the environment, taken literally": (
        "redis://u:${PW}@h",
        RedisTarget("standalone", ("h:6379",), username="u", password="p@ss:/%41"),
    ),
    "a password alone": (
        "redis://:${PW}@h",
        RedisTarget("standalone", ("h:6379",), password="p@ss:/%41"),
    ),
    "a host from the environment": (
        "redis://${HOST}:1",
        RedisTarget("standalone", ("redis.eu:1",)),
    ),
    "a whole URL from the environment, decoded": (
        "${URL}",
        RedisTarget("standalone", ("h:1",), username="u", password="p@ss", tls=Tls(), database=2),
    ),
    "a password beside a URL from the environment": (
        "{url: '${BARE}', username: u, password: '${PW}'}",
        RedisTarget("standalone", ("h:1",), username="u", password="p@ss:/%41"),
    ),
}
ENV = {
    "PW": "p@ss:/%41",
    "HOST": "redis.eu",
    "URL": "rediss://u:p%40ss@h:1/2",
    "BARE": "redis://h:1",
}


@pytest.mark.parametrize(("redis", "expected"), TARGETS.values(), ids=TARGETS)
def test_redis_is_at(redis: str, expected: RedisTarget) -> None:
    fleet = loads(one(redis), env=ENV)
    assert fleet.regions["eu"].redis == expected
    assert "p@ss" not in repr(fleet)


def test_a_password_file_is_found_beside_the_file_and_loses_its_line_end(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"hush \r\n")
    (tmp_path / "regions.yaml").write_text(one("{url: redis://h, password_file: secret}"))
    fleet = load(tmp_path / "regions.yaml", {})
    assert fleet.regions["eu"].redis.password == "hush "
    assert "hush" not in repr(fleet)


FILE = "password_file"
BAD_TARGETS = {
    "a password in the URL": ("redis://u:hunter2@h", "url", "may not stand in the file"),
    "a password in the file": ("{url: redis://h, password: hunter2}", "password", "may not stand"),
    "a password around a variable": ("redis://u:hunter2${PW}@h", "url", "may not stand"),
    "no URL at all": ("hunter2", "url", "is not a Redis URL"),
    "another scheme": ("http://u:hunter2@h", "url", "is not a Redis URL"),
    "an at sign in a password": ("redis://u:hunt@er2@h", "url", "is not a Redis URL"),
    "options in the URL": ("redis://h?password=hunter2", "url", "without options"),
    "port 0": ("redis://h:0", "url", "is not a Redis URL"),
    "a port above all ports": ("redis://h:65536", "url", "is not a Redis URL"),
    "a variable that is not set": ("redis://u:${NONE}@h", "url", "variable NONE is not set"),
    "a bad URL in a variable": ("'${BAD}'", "url", "is not a Redis URL"),
    "two forms": ("{url: redis://h, cluster: ['a:1']}", "", "exactly one of"),
    "no form": ("{username: u}", "", "exactly one of"),
    "a cluster of none": ("{cluster: []}", "cluster", "at least one HOST:PORT"),
    "a cluster node without a port": ("{cluster: [a]}", "cluster[0]", "is not HOST:PORT"),
    "a cluster node with a password": ("{cluster: ['u:hunter2@a:1']}", "cluster[0]", "not HOST"),
    "a cluster node twice": ("{cluster: ['a:1', 'a:1']}", "cluster", "twice"),
    "a sentinel without its service": ("{sentinel: ['a:1']}", "service", "goes with sentinel"),
    "a service without a sentinel": ("{url: redis://h, service: s}", "service", "goes with"),
    "two passwords": ("{url: 'redis://:${PW}@h', password: '${PW}'}", "url", "keep one"),
    "a password, its file": ("{url: redis://h, password: '${PW}', password_file: f}", FILE, "keep"),
    "no such password file": ("{url: redis://h, password_file: /no/such}", FILE, "No such"),
    "a certificate without its key": ("{url: redis://h, tls: {cert: c}}", "tls", "both cert and"),
    "TLS on a unix socket": ("{url: 'unix:///s', tls: {ca: c}}", "tls", "no TLS"),
    "a list": ("[redis://h]", "", "must be a mapping"),
    "a number": ("6379", "", "must be a mapping"),
}  # fmt: skip


@pytest.mark.parametrize(("redis", "key", "problem"), BAD_TARGETS.values(), ids=BAD_TARGETS)
def test_redis_cannot_be(redis: str, key: str, problem: str) -> None:
    error = refused(one(redis), ENV | {"BAD": "redis//u:hunter2@h"})
    # A URL may be given in short: then its place is that of `redis`.
    assert error.key in {f"regions.eu.redis.{key}", "regions.eu.redis"}
    assert problem in error.problem
    assert error.line == 4
    assert "hunt" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None


def test_two_regions_cannot_share_a_redis() -> None:
    error = refused(TWO.replace("6402", "6401"))
    assert (error.key, error.line) == ("regions.us.redis", 4)
    assert "is the Redis of eu" in error.problem


# --- what a bad file is answered with: place, key, sentence

REFUSALS: dict[str, tuple[str, str]] = {
    "unknown key at the top": (TWO + "que: {}", "5:1: que: unknown key (did you mean queues?)"),
    "a durability that this release would not keep": (
        TWO + "queues: {mail: {durability: fsync}}",
        "5:29: queues.mail.durability: fsync is not served by this release; use memory",
    ),
    "a ledger mode that this release would not keep": (
        TWO + "queues: {mail: {dedup: {on_home_unreachable: accept}}}",
        "5:46: queues.mail.dedup.on_home_unreachable: accept is not served by this release",
    ),
    "unknown key in a region": (
        one("redis://h\n    wieght: 3"),
        "5:5: regions.eu.wieght: unknown key (did you mean weight?)",
    ),
    "unknown key in redis": (
        one("{url: redis://h, usrname: u}"),
        "4:29: regions.eu.redis.usrname: unknown key (did you mean username?)",
    ),
    "unknown key deep in a queue": (
        TWO + "queues:\n  mail:\n    backoff: {cap: 3s, factr: 2}",
        "7:15: queues.mail.backoff.cap: unknown key",
    ),
    "unknown key in a rule": (
        TWO + "rules:\n  - {name: a, match: {tenant: x}}",
        "6:23: rules[0].match.tenant: unknown key (did you mean tenants?)",
    ),
    "unknown key nothing is like": (TWO + "zzz: 1", "5:1: zzz: unknown key"),
    "the key, before what it left out": (
        "version: 1\nregion: {}",
        "2:1: region: unknown key (did you mean regions?)",
    ),
    "no regions key": ("version: 1\n", "1:1: regions: is required"),
    "no version": (TWO.removeprefix("version: 1\n"), "1:1: version: is required"),
    "a region without redis": (
        "version: 1\nregions:\n  eu: {weight: 1}",
        "3:3: regions.eu.redis: is required",
    ),
    "another version": (TWO.replace("1", "2", 1), "1:10: version: must be 1,"),
    "true as a version": (TWO.replace("1", "true", 1), "1:10: version: must be a whole"),
    "no regions": ("version: 1\nregions: {}", "2:10: regions: needs at least one region"),
    "regions as a list": ("version: 1\nregions: [eu]", "2:10: regions: must be a mapping"),
    "an empty value": (TWO + "rules:", "5:1: rules: is empty; give it a value or remove the key"),
    "a null": (TWO + "queues: {default: {attempts: null}}", "queues.default.attempts: is empty"),
    "a bad region name": (
        "version: 1\nregions:\n  eu_west: {redis: redis://h}",
        "3:3: regions.eu_west: names are 1 to 63 lower-case letters",
    ),
    "a bad group name": (
        "version: 1\nregions: {eu: {redis: redis://h, residency: [EU]}}",
        "no hyphen at an end (did you mean eu?)",
    ),
    "a bad deployment name": (TWO + "deployment: a b", "5:13: deployment: names are"),
    "text for a number": (
        TWO.replace("[us]", "[us], weight: '5'"),
        "regions.us.weight: must be a whole number, without quotes",
    ),
    "a broken number": (TWO.replace("[us]", "[us], weight: 1.5"), "must be a whole number"),
    "a weight below 0": (TWO.replace("[us]", "[us], weight: -1"), "must be at least 0"),
    "a weight above all": (TWO.replace("[us]", "[us], weight: 1001"), "must be at most 1000"),
    "an infinite cost": (TWO.replace("[us]", "[us], cost: .inf"), "must be a finite number"),
    "a number for a text": (
        TWO.replace("[us]", "[7]"),
        "regions.us.residency[0]: must be text; put it in quotes",
    ),
    "a boolean for a text": (
        TWO + "rules: [{name: a, match: {labels: {ordered: true}}}]",
        "rules[0].match.labels.ordered: must be text; put it in quotes",
    ),
    "all weights 0": (
        "version: 1\nregions: {eu: {redis: redis://h, weight: 0}}",
        "2:10: regions: all weights are 0",
    ),
    "partitions without a table": (
        TWO + "partitions: 100",
        "5:13: partitions: must be one of 16, 64, 128, 256",
    ),
    "an rtt of an unknown region": (
        TWO + "rtt: {uss: {eu: 1ms}}",
        "5:7: rtt.uss: there is no region uss (did you mean us?)",
    ),
    "an rtt to an unknown region": (
        TWO + "rtt: {us: {mars: 1ms}}",
        "5:12: rtt.us.mars: there is no",
    ),
    "an rtt to itself": (TWO + "rtt: {us: {us: 1ms}}", "a region has no way to itself"),
    "an unknown preferred region": (
        TWO + "rules: [{name: a, prefer: [us, uk]}]",
        "5:32: rules[0].prefer[1]: there is no region uk",
    ),
    "a preferred region twice": (TWO + "rules: [{name: a, prefer: [us, us]}]", "us is named twice"),
    "a preferred region outside the fence": (
        TWO + "rules: [{name: a, residency: [eu], prefer: [us]}]",
        "5:45: rules[0].prefer[0]: us is outside the rule's own fence [eu]",
    ),
    "a fence that nobody has": (
        TWO + "rules: [{name: a, residency: [eux]}]",
        "rules[0].residency[0]: no region is in group eux (did you mean eu?)",
    ),
    "an empty fence is not no fence": (
        TWO + "rules: [{name: a, residency: []}]",
        "rules[0].residency: must have at least 1 entry",
    ),
    "an empty glob": (TWO + "rules: [{name: a, match: {names: ['']}}]", "must not be empty"),
    "two rules of one name": (
        TWO + "rules: [{name: a}, {name: a}]",
        "5:27: rules[1].name: another rule has this name",
    ),
    "a rule called unserved": (TWO + "rules: [{name: unserved}]", "is the name of a built-in"),
    "a rule called default": (TWO + "rules: [{name: default}]", "is the name of a built-in rule"),
    "a rule without a name": (TWO + "rules: [{}]", "5:9: rules[0].name: is required"),
    "a rule name with spaces": (TWO + "rules: [{name: a b}]", "rules[0].name: must be 1 to 63"),
    "an unknown affinity key": (
        TWO + "rules: [{name: a, affinity: {key: user}}]",
        "must be affinity_key, tenant or label:NAME",
    ),
    "an unknown mode": (
        TWO + "rules: [{name: a, affinity: {mode: always}}]",
        "rules[0].affinity.mode: must be 'required' or 'preferred'",
    ),
    "an order of an unknown region": (
        TWO + "failover: {order: {uk: [us]}}",
        "5:20: failover.order.uk: there is no region uk",
    ),
    "an order to an unknown region": (TWO + "failover: {order: {us: [uk]}}", "no region uk"),
    "an order to itself": (TWO + "failover: {order: {us: [us]}}", "cannot take over from itself"),
    "a queue name with spaces": (TWO + "queues: {a b: {}}", "5:10: queues.a b: queue names are"),
    "an unknown kind of death": (
        TWO + "queues: {a: {failover: {on: [bored]}}}",
        "queues.a.failover.on[0]: must be 'exhausted', 'timeout', 'crashed', 'rejected' or",
    ),
    "a kind of death twice": (
        TWO + "queues: {a: {failover: {on: [timeout, timeout]}}}",
        "queues.a.failover.on[1]: timeout is named twice",
    ),
    "no score at all": (
        TWO + "steering: {wait_weight: 0, rtt_weight: 0}",
        "wait_weight and rtt_weight cannot both be 0",
    ),
    "security that is not served": (
        TWO + "security: {roles: {}}",
        "5:12: security.roles: is not served yet; remove it",
    ),
    "security nobody knows": (
        TWO + "security: {token: {}}",
        "security.token: unknown key (did you mean tokens?)",
    ),
}


@pytest.mark.parametrize(("text", "message"), REFUSALS.values(), ids=REFUSALS)
def test_the_file_is_refused_for(text: str, message: str) -> None:
    error = refused(text)
    assert message in str(error)
    assert str(error).startswith(f"regions.yaml:{error.line}:{error.column}: ")


# --- all mistakes at once

MANY = """\
version: 2
regions:
  us-east:
    redis: redis//h:hunter2@x
    residency: us
    wieght: 200
  eu-west: {redis: "redis://h:2", weight: heavy, residency: [7]}
  ap-south: {redis: "redis://h:2/1", redis: "redis://h:3", limits: {max_wait: 30}}
rtt:
  us-east: {mars: 1ms}
rules:
  - {match: {tenants: acme}, prefer: [venus]}
  - {name: all, match: {names: ["*"]}}
  - {name: never, prefer: [eu-west]}
queues:
  default: {attempts: many}
  mail: {backoff: {initial: 9s, max: 1s}, retention: {dead: }}
failover: 5
speed: 1
"""
ALL_OF_MANY = """\
regions.yaml:1:10: version: must be 1, the only format there is
regions.yaml:4:12: regions.us-east.redis: is not a Redis URL; write redis://HOST:PORT, \
rediss://HOST:PORT or unix:///PATH
regions.yaml:5:16: regions.us-east.residency: must be a list: write [us]
regions.yaml:6:5: regions.us-east.wieght: unknown key (did you mean weight?)
regions.yaml:7:43: regions.eu-west.weight: must be a whole number
regions.yaml:7:62: regions.eu-west.residency[0]: must be text; put it in quotes
regions.yaml:8:38: regions.ap-south.redis: duplicate key, first given in line 8
regions.yaml:8:79: regions.ap-south.limits.max_wait: a duration needs a unit: write 30s or 30ms
regions.yaml:10:13: rtt.us-east.mars: there is no region mars
regions.yaml:12:5: rules[0].name: is required
regions.yaml:12:23: rules[0].match.tenants: must be a list: write [acme]
regions.yaml:12:39: rules[0].prefer[0]: there is no region venus
regions.yaml:14:5: rules[2]: is never reached: rule all before it matches every task
regions.yaml:16:23: queues.default.attempts: must be a whole number
regions.yaml:17:19: queues.mail.backoff: initial is longer than max
regions.yaml:17:55: queues.mail.retention.dead: is empty; give it a value or remove the key
regions.yaml:18:11: failover: must be a mapping (key: value)
regions.yaml:19:1: speed: unknown key"""


def test_every_mistake_of_a_file_is_shown_at_once_in_its_order() -> None:
    error = refused(MANY)
    assert isinstance(error, ConfigErrors)
    assert str(error) == ALL_OF_MANY
    assert [str(each) for each in error.errors] == ALL_OF_MANY.split("\n")
    assert (error.path, error.line, error.column, error.key) == ("regions.yaml", 1, 10, "version")
    assert error.problem == error.errors[0].problem


def test_a_single_mistake_is_a_plain_config_error() -> None:
    assert type(refused(TWO + "zzz: 1")) is ConfigError


CONSEQUENCES: dict[str, tuple[str, list[str]]] = {
    "a region whose residency is misspelt may be in the rule's group": (
        TWO.replace("residency: [eu]", "residncy: [eu]") + "rules: [{name: a, residency: [eu]}]",
        ["regions.eu.residncy"],
    ),
    "a rule whose condition is misspelt may not match everything": (
        TWO + "rules: [{name: a, match: {tenant: x}}, {name: b}]",
        ["rules[0].match.tenant"],
    ),
    "a misspelt key is not missing, too": (
        TWO.replace("{redis:", "{redsi:", 1),
        ["regions.eu.redsi"],
    ),
    "regions, misspelt, are not missing, nor are there none": (
        "version: 1\nregion: {eu: {redis: redis://h}}",
        ["region"],
    ),
    "a region that is no mapping is still a region": (
        "version: 1\nregions: {eu: x, us: {redis: redis://h}}\nfailover: {order: {us: [eu]}}",
        ["regions.eu"],
    ),
    "what is wrong in default is not wrong in each queue": (
        TWO + "queues: {default: {attempts: 0}, a: {}, b: {}}",
        ["queues.default.attempts"],
    ),
    "a list for a mapping hides nothing behind it": (
        TWO + "queues: {a: []}\nrules: [5, {name: x, prefer: [mars]}]",
        ["queues.a", "rules[0]", "rules[1].prefer[0]"],
    ),
}


@pytest.mark.parametrize(("text", "keys"), CONSEQUENCES.values(), ids=CONSEQUENCES)
def test_what_follows_from_a_mistake_is_not_another_one(text: str, keys: list[str]) -> None:
    assert [error.key for error in all_of(refused(text))] == keys


UNREACHED = {
    "no condition": "{}",
    "a glob for everything": "{names: ['*'], tenants: [a, '*']}",
}


@pytest.mark.parametrize("match", UNREACHED.values(), ids=UNREACHED)
def test_a_rule_behind_one_that_matches_everything_is_refused(match: str) -> None:
    error = refused(TWO + f"rules: [{{name: a, match: {match}}}, {{name: b, residency: [eu]}}]")
    assert error.key == "rules[1]"
    assert "is never reached: rule a before it matches every task" in error.problem


def test_a_last_rule_may_match_everything() -> None:
    rules = "rules: [{name: a, match: {labels: {x: '*'}}}, {name: b}]"
    assert len(loads(TWO + rules, env={}).rules) == 2


def test_a_fence_is_refused_if_the_region_meant_is_in_another_group() -> None:
    text = TWO.replace("[eu]", "[ue]") + "rules: [{name: a, residency: [eu]}]"
    assert "rules[0].residency[0]: no region is in group eu" in str(refused(text))


UNITS = {
    "a number without a unit": ("timeout: 30", "a duration needs a unit: write 30s or 30ms"),
    "a quoted number without a unit": ("timeout: '30'", "needs a unit: write 30s or 30ms"),
    "0 without a unit": ("starvation_after: 0", "needs a unit: write 0s or 0ms"),
    "an unknown unit": ("timeout: 3w", "must be a duration such as 250ms, 30s, 5m, 24h or 14d"),
    "two units": ("timeout: 1h30m", "must be a duration such as"),
    "a space": ("timeout: 3 s", "must be a duration such as"),
    "a minus sign": ("timeout: -3s", "must be a duration such as"),
    "a boolean": ("timeout: true", "must be a duration such as"),
    "other digits": ("timeout: '٣s'", "must be a duration such as"),
    "too short": ("lease: 10ms", "must be 1s to 1h"),
    "too long": ("timeout: 13h", "must be 1ms to 12h"),
    "parts of a millisecond": ("timeout: 1.5ms", "must be whole milliseconds"),
}


@pytest.mark.parametrize(("setting", "problem"), UNITS.values(), ids=UNITS)
def test_a_duration_cannot_be(setting: str, problem: str) -> None:
    error = refused(TWO + f"queues: {{default: {{{setting}}}}}")
    assert error.key == "queues.default." + setting.split(":", maxsplit=1)[0]
    assert problem in error.problem


DURATIONS = {"250ms": 250, "30s": 30_000, "5m": 300_000, "1.5h": 5_400_000, "0.001s": 1}


@pytest.mark.parametrize(("text", "expected_ms"), DURATIONS.items())
def test_a_duration_is(text: str, expected_ms: int) -> None:
    fleet = loads(TWO + f"queues: {{default: {{timeout: {text}}}}}", env={})
    assert fleet.default_queue.timeout_ms == expected_ms
    assert isinstance(fleet.default_queue.timeout_ms, int)


SHARES = {
    "a fraction": ("0.3", "a share needs a percent sign: write 30%"),
    "a number": ("30", "a share needs a percent sign: write 30%"),
    "too much": ("101%", "must be 0% to 100%"),
    "words": ("a third", "must be a share such as 30%"),
}


@pytest.mark.parametrize(("text", "problem"), SHARES.values(), ids=SHARES)
def test_a_share_cannot_be(text: str, problem: str) -> None:
    assert problem in refused(TWO + f"steering: {{band: {text}}}").problem


# --- C27: backoff

BACKOFFS = {
    "no cap": ("{max: }", "max"),
    "no first wait": ("{initial: ~}", "initial"),
    "a cap of 0": ("{max: 0s}", "max"),
    "a first wait of 0": ("{initial: 0ms}", "initial"),
    "a negative cap": ("{max: -5s}", "max"),
    "a cap beyond all time": ("{max: 1e308}", "max"),
    "a cap beyond all time, with a unit": ("{max: 1e308s}", "max"),
    "a cap of NaN": ("{max: .nan}", "max"),
    "an infinite cap": ("{max: .inf}", "max"),
    "a factor below 1": ("{factor: 0.5}", "factor"),
    "a factor of 0": ("{factor: 0}", "factor"),
    "a negative factor": ("{factor: -2}", "factor"),
    "a factor beyond all": ("{factor: 1e308}", "factor"),
    "a factor of NaN": ("{factor: .nan}", "factor"),
    "an infinite factor": ("{factor: .inf}", "factor"),
}


@pytest.mark.parametrize(("backoff", "key"), BACKOFFS.values(), ids=BACKOFFS)
@pytest.mark.parametrize("queue", ["default", "mail"])
def test_a_backoff_cannot_have(backoff: str, key: str, queue: str) -> None:
    error = refused(TWO + f"queues:\n  default: {{}}\n  {queue}x: {{backoff: {backoff}}}")
    assert (error.key, error.line) == (f"queues.{queue}x.backoff.{key}", 7)


def test_a_first_wait_above_the_cap_is_refused_wherever_the_two_come_from() -> None:
    both = refused(TWO + "queues: {default: {backoff: {initial: 3s, max: 2s}}}")
    assert both.key == "queues.default.backoff"
    inherited = refused(
        TWO + "queues:\n  default: {backoff: {initial: 3s}}\n  a: {backoff: {max: 2s}}"
    )
    assert (inherited.key, inherited.line) == ("queues.a.backoff", 7)


def test_what_is_wrong_in_default_is_shown_there() -> None:
    error = refused(TWO + "queues:\n  a: {}\n  default: {backoff: {max: 3}}")
    assert (error.key, error.line) == ("queues.default.backoff.max", 7)


# --- C44: files that are not what they should be

BROKEN = {
    "broken syntax": (TWO + "rules: [", 5),
    "a tab as indentation": ("version: 1\nregions:\n\teu: {}\n", 3),
    "an empty file": ("", 1),
    "only comments": ("# nothing\n", 1),
    "a list": ("- a\n", 1),
    "a lone word": ("regions", 1),
    "cut off in the middle": (TWO[: TWO.index("residency")], 3),
    "cut off behind a key": (TWO + "rules:\n", 5),
    "a duplicate key": (TWO + "version: 1\n", 5),
    "a duplicate region": (TWO + "  eu: {redis: redis://x}\n", 5),
    "a duplicate key, quoted": (TWO + '"version": 1\n', 5),
    "an anchor": (TWO + "rtt: &a {}\n", 5),
    "an alias": (TWO + "rtt: *a\n", 5),
    "an anchor on a key": (TWO + "&a rtt: {}\n", 5),
    "a tag": (TWO + "deployment: !!str 1\n", 5),
    "a Python tag": (TWO + "rtt: !!python/object/apply:os.system [true]\n", 5),
    "a local tag": (TWO + "rtt: !x {}\n", 5),
    "a merge key": (TWO + "<<: {}\n", 5),
    "a mapping as a key": (TWO + "{a: b}: c\n", 5),
    "a list as a key": (TWO + "? [a]\n: c\n", 5),
    "a second document": (TWO + "---\nversion: 1\n", 5),
    "too deep": (TWO + "rtt: " + "[" * 200 + "]" * 200, 5),
    "a number without end": (TWO + "partitions: " + "9" * 5000, 5),
}


@pytest.mark.parametrize(("text", "line"), BROKEN.values(), ids=BROKEN)
def test_not_a_usable_file(text: str, line: int) -> None:
    error = refused(text)
    assert error.line is not None
    assert error.line >= line
    assert len(str(error)) < 300


def test_a_syntax_error_is_placed_where_it_is() -> None:
    error = refused(TWO + "deployment: 'a\n")
    assert (error.line, str(error).startswith("regions.yaml:6:1: is not YAML: ")) == (6, True)


def test_what_the_file_says_cannot_forge_a_line_of_its_own() -> None:
    error = refused(TWO + '"a\\n\\e[31mb": 1')
    assert str(error) == r"regions.yaml:5:1: a\n\x1b[31mb: unknown key"
    assert len(str(refused(TWO + "x" * 100_000 + ": 1"))) < 500


def test_a_duplicate_names_the_first_one() -> None:
    error = refused(TWO + "version: 1\n")
    assert str(error) == "regions.yaml:5:1: version: duplicate key, first given in line 1"


def test_an_anchor_bomb_is_refused_at_its_first_anchor() -> None:
    lines = ["a0: &a0 [lol, lol]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60))]
    error = refused("\n".join(lines))
    assert (error.line, error.key) == (1, "a0")


def test_many_entries_are_refused_though_the_file_is_small() -> None:
    assert "more than 50000 entries" in refused(TWO + "rtt: [" + "a," * 60_000 + "]").problem


def _nothing(path: Path) -> None:
    pass


def _huge(path: Path) -> None:
    path.write_bytes(b"#" * (MAX_FILE_BYTES + 1))


def _latin(path: Path) -> None:
    path.write_bytes(b"version: 1\nx: \xe9\n")


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "not there": (_nothing, ": there is no such file; check the path"),
    "a directory": (Path.mkdir, ": is a directory; give the path of the file in it"),
    "a pipe": (os.mkfifo, ": is not a regular file"),
    "too large": (_huge, ": is larger than 1 MiB; is it the right file"),
    "not UTF-8": (_latin, ":2:4: is not UTF-8 here; save it as UTF-8"),
    "of null bytes": (lambda path: path.write_bytes(b"\0" * 9), "a character that is not allowed"),
    "a loop of links": (lambda path: path.symlink_to(path), ": cannot be read: Too many levels"),
}


@pytest.mark.parametrize(("make", "message"), FILES.values(), ids=FILES)
def test_a_path_is(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "regions.yaml"
    make(path)
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_socket_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        with pytest.raises(ConfigError, match="is not a regular file"):
            load(path, {})


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "regions.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + TWO.replace("\n", "\r\n").encode())
    assert load(path, {}) == loads(TWO, env={})


def test_text_that_cannot_be_encoded_is_refused() -> None:
    assert "UTF-8" in refused(TWO + "deployment: '\ud800'").problem


def test_load_reads_the_environment_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TW_TEST_HOST", "from-env")
    path = tmp_path / "regions.yaml"
    path.write_text(one("redis://${TW_TEST_HOST}"))
    assert load(str(path)).regions["eu"].redis.nodes == ("from-env:6379",)


def test_regions_whose_codes_collide_are_refused() -> None:
    seen: dict[int, str] = {}
    for number in range(100_000):
        name = f"r{number}"
        if (other := seen.setdefault(region_code(name), name)) != name:
            break
    else:
        pytest.fail("20 bits must collide before 100,000 names")
    text = f"version: 1\nregions:\n  {other}: {{redis: redis://a}}\n  {name}: {{redis: redis://b}}"
    error = refused(text)
    assert (error.line, error.key) == (4, f"regions.{name}")
    assert f"has the same code in task ids as {other}" in error.problem


@given(st.text(alphabet="version: 1\n  {}[],-#'\"&*!?|>%@`~<eu.0", max_size=200))
@example("!")
@example("---\n--- ")
@example("%YAML 1.1\n---\nversion: 1")
def test_any_text_is_read_or_refused_with_a_config_error(text: str) -> None:
    for whole in (text, TWO + text, TWO.replace("[eu]", text)):
        try:
            loads(whole, env={})
        except ConfigError as error:
            said = str(error).split("\n")
            assert said == [str(each) for each in all_of(error)]  # noqa: PT017 - either is fine


# --- warnings


def said(text: str) -> str:
    return "\n".join(warnings(loads(text, env={})))


FOUR_EVEN = "version: 1\nregions:\n" + "".join(
    f"  r{i}: {{redis: redis://h{i}, residency: [all]}}\n" for i in range(4)
)


def test_an_even_fleet_needs_no_warning() -> None:
    assert said(FOUR_EVEN) == ""


def test_a_fence_around_one_region_is_warned_of() -> None:
    assert "one region alone is inside [eu], [us]: tasks fenced so have no failover" in said(TWO)


def test_a_region_that_the_others_could_not_replace_is_warned_of() -> None:
    assert "if eu is lost, the other regions of the fleet get 2.0 times their normal" in said(TWO)


def test_rules_that_lead_to_weight_0_are_warned_of() -> None:
    text = FOUR_EVEN + "  spare: {redis: redis://s, residency: [cold], weight: 0}\n"
    text += "rules: [{name: b, match: {names: [b]}, residency: [cold]}, {name: a, prefer: [spare]}]"
    assert "rule a prefers spare, whose weight is 0" in said(text)
    assert "rule b fences to regions of weight 0" in said(text)


def test_groups_that_differ_by_the_order_of_their_letters_are_warned_of() -> None:
    text = TWO + "  eu-north: {redis: 'redis://h', residency: [ue]}\n"
    assert "groups eu (eu) and ue (eu-north) are two: is one a typing error?" in said(text)


def test_a_fleet_is_a_value() -> None:
    fleet: Fleet = loads(TWO, env={})
    assert fleet == loads(TWO, env={})
