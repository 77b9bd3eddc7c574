"""The policy file of a running process: what may change in it, and what happens if it cannot."""

import asyncio
import logging
from pathlib import Path

import pytest

from tradewind import metrics, regions
from tradewind.errors import ConfigError, SetupError
from tradewind.fleet import Fleet, RedisTarget
from tradewind.policy_file import REDIS_AT, PolicyFile, forbidden, told

FILE = """\
version: 1
partitions: 16
regions:
  eu-west: {redis: redis://127.0.0.1:6401, residency: [eu]}
  us-east: {redis: redis://127.0.0.1:6402, residency: [us]}
rules:
  - {name: personal, match: {labels: {data: pii}}, residency: [eu]}
queues:
  mail: {attempts: 3}
"""
THIRD = "  ap-south: {redis: redis://127.0.0.1:6403, residency: [apac]}\n"

#: What the file says then, and what the refusal names; empty: it may change.
CHANGES = {
    "nothing": (FILE, ""),
    "a rule": (FILE.replace("residency: [eu]}\nqueues", "residency: [us]}\nqueues"), ""),
    "no rules": (FILE[: FILE.index("rules:")], ""),
    "a queue": (FILE.replace("attempts: 3", "attempts: 4"), ""),
    "a region more": (FILE.replace("rules:", THIRD + "rules:"), ""),
    "a region less": (
        FILE.replace("  us-east: {redis: redis://127.0.0.1:6402, residency: [us]}\n", ""),
        "",
    ),
    "another address": (FILE.replace("6402", "6409"), ""),
    "another group": (FILE.replace("[us]", "[us, emea]"), ""),
    "other health": (FILE + "health: {interval: 1s}\n", ""),
    "partitions": (FILE.replace("partitions: 16", "partitions: 128"), "partitions: 128"),
    "partitions by default": (FILE.replace("partitions: 16\n", ""), "partitions: 64"),
    "deployment": (FILE + "deployment: other\n", "deployment: 'other'"),
    "the own region is gone": (FILE.replace("eu-west", "eu-north"), "regions: eu-west is missing"),
}


@pytest.mark.parametrize(("text", "names"), CHANGES.values(), ids=CHANGES)
def test_what_a_running_process_can_follow(text: str, names: str) -> None:
    why = forbidden(regions.loads(FILE), regions.loads(text), "eu-west")

    assert names in why if names else not why
    assert not names or "put" in why  # it says what to do


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "regions.yaml"
    path.write_text(FILE)
    return path


def put(path: Path, text: str) -> None:
    path.write_text(text)


def shown() -> tuple[float | None, list[str]]:
    """The value of reload_failed, and the versions in force, as /metrics has them."""
    failed = metrics.REGISTRY.get_sample_value("tradewind_policy_reload_failed")
    families = {family.name: family for family in metrics.REGISTRY.collect()}
    info = families["tradewind_policy_info"]
    return failed, [sample.labels["version"] for sample in info.samples if sample.value]


async def test_a_new_file_is_taken_by_everybody_at_once(path: Path) -> None:
    policy, heard = PolicyFile(str(path), "eu-west"), list[tuple[str, Fleet]]()
    policy.tell(lambda fleet: heard.append(("first", fleet)))
    policy.tell(lambda fleet: heard.append(("second", fleet)))
    before = policy.fleet
    put(path, FILE.replace("attempts: 3", "attempts: 4"))

    after = await policy.reload()

    assert heard == [("first", after), ("second", after)]
    assert policy.fleet is after
    assert after.queue("mail").attempts == 4
    assert after.version != before.version
    failed, versions = shown()
    assert failed == 0
    assert after.version in versions
    assert before.version not in versions


async def test_what_cannot_be_used_changes_nothing_and_says_where_it_is_wrong(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy, heard = PolicyFile(str(path), "eu-west"), list[Fleet]()
    policy.tell(heard.append)
    before = policy.fleet
    put(path, FILE.replace("residency: [eu]}\nqueues", "residensy: [eu]}\nqueues"))

    with caplog.at_level(logging.ERROR), pytest.raises(ConfigError, match=r":7:\d+: .*residensy"):
        await policy.reload()

    assert policy.fleet is before
    assert policy.text == FILE
    assert heard == []
    assert shown()[0] == 1
    assert ":7:" in caplog.records[-1].__dict__["reason"]

    put(path, FILE)
    await policy.reload()

    assert heard == []  # it says what is in force already
    assert shown()[0] == 0


async def test_what_will_surprise_is_logged_when_the_file_is_taken(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = PolicyFile(str(path), "eu-west")
    again = "  - {name: never, match: {labels: {data: pii}}, residency: [us]}\n"
    put(path, FILE.replace("queues:", again + "queues:"))

    with caplog.at_level(logging.WARNING):
        await policy.reload()
        told = [record.__dict__["warning"] for record in caplog.records]
        await policy.reload()

    assert any("never" in warning for warning in told)
    assert len(caplog.records) == len(told), "of what is in force already it was told"


async def test_what_a_part_cannot_serve_is_a_refusal(path: Path) -> None:
    policy = PolicyFile(str(path), "eu-west")

    def cannot(fleet: Fleet) -> None:
        raise SetupError("region ap-south: Sentinel is not served yet")

    policy.tell(cannot)
    put(path, FILE.replace("rules:", THIRD + "rules:"))

    with pytest.raises(ConfigError, match="Sentinel is not served yet"):
        await policy.reload()
    assert "ap-south" not in policy.fleet.regions
    assert shown()[0] == 1


async def test_it_follows_the_file_and_goes_on_after_a_bad_one(path: Path) -> None:
    policy, news = PolicyFile(str(path), "eu-west", every_s=0.01), asyncio.Event()
    policy.tell(lambda fleet: news.set())
    following = asyncio.create_task(policy.run())
    try:
        put(path, "version: [")
        async with asyncio.timeout(5):
            while shown()[0] != 1:  # noqa: ASYNC110 - nobody tells of a refusal but the metric
                await asyncio.sleep(0.01)
        put(path, FILE.replace("attempts: 3", "attempts: 7"))
        async with asyncio.timeout(5):
            await news.wait()
    finally:
        following.cancel()
    assert policy.fleet.queue("mail").attempts == 7


async def test_a_child_begins_with_its_parents_copy_and_then_reads_the_file(
    path: Path, tmp_path: Path
) -> None:
    """Secrets that the copy names start from the directory of the file itself."""
    (tmp_path / "secret").write_text("x")
    named = FILE.replace(
        "{redis: redis://127.0.0.1:6402,",
        "{redis: {url: redis://127.0.0.1:6402, password_file: secret},",
    )
    put(path, named)
    (tmp_path / "pool").mkdir()
    copy = PolicyFile(str(path), "eu-west").keep_copy(str(tmp_path / "pool"))
    put(path, named.replace("attempts: 3", "attempts: 9"))

    policy, news = PolicyFile(str(path), "eu-west", first=copy), asyncio.Event()
    policy.tell(lambda fleet: news.set())

    assert policy.fleet.regions["us-east"].redis.password == "x"
    assert policy.fleet.queue("mail").attempts == 3
    following = asyncio.create_task(policy.run())
    try:
        async with asyncio.timeout(5):
            await news.wait()
    finally:
        following.cancel()
    assert policy.fleet.queue("mail").attempts == 9


async def test_redis_may_be_elsewhere_and_the_version_stays_that_of_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = RedisTarget(
        "sentinel", ("127.0.0.1:9",), service="main", through={"127.0.0.1:8": "127.0.0.1:7"}
    )
    monkeypatch.setenv(REDIS_AT, told({"us-east": watched, "gone": watched}))
    policy = PolicyFile(str(path), "eu-west")
    assert policy.fleet.version == regions.load(path).version
    changed = FILE.replace("attempts: 3", "attempts: 5")
    put(path, changed)
    fleet = await policy.reload()

    assert fleet.version == regions.loads(changed).version
    assert {name: region.redis for name, region in fleet.regions.items()} == {
        "eu-west": RedisTarget("standalone", ("127.0.0.1:6401",)),
        "us-east": watched,
    }
    for odd in ("us-east", '["us-east"]', '{"us-east": "127.0.0.1:9"}', '{"us-east": {}}'):
        monkeypatch.setenv(REDIS_AT, odd)
        with pytest.raises(ConfigError, match=REDIS_AT):
            PolicyFile(str(path), "eu-west")


async def test_reloads_are_taken_one_after_the_other(path: Path) -> None:
    policy = PolicyFile(str(path), "eu-west")
    put(path, FILE.replace("attempts: 3", "attempts: 5"))

    fleets = await asyncio.gather(*(policy.reload() for _ in range(10)))

    assert {fleet.version for fleet in fleets} == {policy.fleet.version}
