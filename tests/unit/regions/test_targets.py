"""Where a region's Redis is."""

from pathlib import Path

import pytest

from tests.unit.regions.files import TWO, all_of, one, refused
from tradewind.errors import ConfigError
from tradewind.fleet import (
    RedisTarget,
    Tls,
)
from tradewind.regions import UNKNOWN_VERSION, load, loads

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


def test_tls_files_are_found_beside_the_file(tmp_path: Path) -> None:
    given = one("{url: redis://h, tls: {ca: ca.pem, cert: /etc/c.pem, key: keys/k.pem}}")
    (tmp_path / "regions.yaml").write_text(given)
    fleet = load(tmp_path / "regions.yaml", {})
    expected = Tls(f"{tmp_path}/ca.pem", "/etc/c.pem", f"{tmp_path}/keys/k.pem")
    assert fleet.regions["eu"].redis.tls == expected


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


SECRETS = """\
version: 1
regions:
  eu: {redis: {url: redis://h:1, password_file: gone}, residency: [eu]}
  us: {redis: "${NOT_SET}", residency: [us]}
  ap: {redis: redis://h:2, residency: [ap]}
queues:
  mail: {on_dead: {webhook: "https://h", secret_file: gone}}
"""


def test_without_secrets_a_file_that_points_to_them_is_one_to_look_at() -> None:
    keys = [error.key for error in all_of(refused(SECRETS))]
    assert keys == [
        "regions.eu.redis.password_file",
        "regions.us.redis",
        "queues.mail.on_dead.secret_file",
    ]
    fleet = loads(SECRETS, env={}, without_secrets=True)
    nodes = [region.redis.nodes for region in fleet.regions.values()]
    assert nodes == [("eu.invalid:6379",), ("us.invalid:6379",), ("h:2",)]
    assert fleet.queue("mail").on_dead is None
    assert fleet.version == UNKNOWN_VERSION


def test_without_secrets_what_is_there_is_read_and_mistakes_are_mistakes() -> None:
    text = one("{url: redis://h, password: '${PW}'}")
    assert loads(text, env={"PW": "a"}, without_secrets=True) == loads(text, env={"PW": "a"})
    with pytest.raises(ConfigError, match="may not stand in the file"):
        loads(one("{url: redis://h, password: hunter2}"), env={}, without_secrets=True)
    with pytest.raises(ConfigError, match=r"regions\.us\.redis: is not a Redis URL"):
        loads(SECRETS, env={"NOT_SET": "h"}, without_secrets=True)
