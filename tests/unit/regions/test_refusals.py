"""What is refused, and where the mistake is said to be."""

import pytest

from tests.unit.regions.files import TWO, all_of, one, refused
from tradewind.errors import ConfigError, ConfigErrors
from tradewind.regions import loads

REFUSALS: dict[str, tuple[str, str]] = {
    "unknown key at the top": (TWO + "que: {}", "5:1: que: unknown key (did you mean queues?)"),
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
