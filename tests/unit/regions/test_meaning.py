"""What a good file means."""

import pytest

from tests.unit.regions.files import ROOT, TWO, one, refused
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
)
from tradewind.ids import region_code
from tradewind.regions import load, loads


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


def test_a_fleet_is_a_value() -> None:
    fleet: Fleet = loads(TWO, env={})
    assert fleet == loads(TWO, env={})
