"""Records of what operators did: their form, and one list of several regions'."""

import asyncio
import base64
import json
from collections.abc import Mapping

import pytest

from router import audit
from router.audit import Audit
from tests.conftest import fleet_at
from tradewind import wire
from tradewind.audit import DAMAGED, MAX_COUNTS, MAX_TEXT, AuditRecord, decode, encode
from tradewind.clock import ManualClock
from tradewind.errors import InvalidTask, StoreUnavailable
from tradewind.testing import MemoryStore

PLACE = "1700000000000-0"


def test_a_record_is_read_as_it_was_kept() -> None:
    record = AuditRecord("purge", "ann", on="q", why="wrong", counts={"q": 3}, told={"name": "a"})
    kept = decode(encode(record), region="eu-west", place=PLACE)
    assert kept == AuditRecord(
        "purge", "ann", "q", "wrong", {"q": 3}, {"name": "a"}, "eu-west", PLACE, 1_700_000_000_000
    )


def test_a_deed_that_this_version_does_not_know_is_told_all_the_same() -> None:
    kept = decode(b'{"deed": "sing", "who": "ann"}', region="r", place=PLACE)
    assert (kept.deed, kept.who) == ("sing", "ann")


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b'{"deed": 1}', b"[" * 100_000])
def test_what_cannot_be_read_is_damaged_and_hides_nothing_else(data: bytes) -> None:
    assert decode(data, region="r", place=PLACE).deed == DAMAGED


def test_a_record_does_not_grow_with_what_callers_say() -> None:
    long = "x" * 100_000
    counts = {str(number): 1 for number in range(10 * MAX_COUNTS)}
    record = AuditRecord("redrive", long, long, long, counts, {"name": long})
    assert len(encode(record)) < 6 * MAX_TEXT + 20 * MAX_COUNTS


class Regions:
    """Regions in memory under one clock, and the list of what was done in them."""

    def __init__(self, *names: str) -> None:
        self.clock = ManualClock()
        fleet = fleet_at("standalone", [1, 2, 3])
        self.stores: Mapping[str, MemoryStore] = {
            name: MemoryStore(name, fleet, self.clock) for name in names
        }
        self.audit = Audit(self.stores)

    async def done(self, *deeds: tuple[str, str]) -> None:
        for region, on in deeds:
            self.clock.advance(1)
            await self.audit.note(AuditRecord("pause", "ann", on=on), region)

    async def listed(self, size: int) -> list[list[str]]:
        """Pages to the end, of what was paused."""
        pages: list[list[str]] = []
        token = ""
        while True:
            page = await self.audit.page(list(self.stores), size, token)
            pages.append([record.on for record in page.records])
            token = page.next_token
            if not token:
                return pages


async def test_records_of_all_regions_come_latest_first() -> None:
    regions = Regions("eu-west", "us-east")
    await regions.done(("eu-west", "a"), ("us-east", "b"), ("us-east", "c"), ("eu-west", "d"))
    assert await regions.listed(10) == [["d", "c", "b", "a"]]


@pytest.mark.parametrize("size", [1, 2, 3])
async def test_every_record_is_on_one_page_whatever_its_size(size: int) -> None:
    regions = Regions("eu-west", "us-east")
    deeds = [("eu-west" if number % 3 else "us-east", str(number)) for number in range(7)]
    await regions.done(*deeds)
    listed = [on for page in await regions.listed(size) for on in page]
    assert listed == [on for _, on in reversed(deeds)]


async def test_what_comes_between_two_pages_does_not_shift_them() -> None:
    regions = Regions("eu-west", "us-east")
    await regions.done(("eu-west", "a"), ("us-east", "b"), ("eu-west", "c"))
    first = await regions.audit.page(["eu-west", "us-east"], 2, "")
    await regions.done(("us-east", "d"))
    second = await regions.audit.page(["eu-west", "us-east"], 2, first.next_token)
    assert [record.on for record in second.records] == ["a"]


async def test_a_silent_region_is_named_and_hides_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    regions = Regions("eu-west", "us-east")
    await regions.done(("eu-west", "a"), ("us-east", "b"))

    async def silent(**_: object) -> None:
        raise StoreUnavailable("us-east", "no answer", sent=True)

    monkeypatch.setattr(regions.stores["us-east"], "audited", silent)
    page = await regions.audit.page(["eu-west", "us-east"], 10, "")
    assert [record.on for record in page.records] == ["a"]
    assert page.silent == ["us-east"]


async def test_what_cannot_be_kept_is_logged_with_all_it_says(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    regions = Regions("eu-west")

    async def full(_: AuditRecord) -> None:
        raise StoreUnavailable("eu-west", "no answer", sent=True)

    monkeypatch.setattr(regions.stores["eu-west"], "audit", full)
    await regions.done(("eu-west", "a"))
    (line,) = caplog.records
    assert line.__dict__["deed"] == "pause"
    assert line.__dict__["on"] == "a"


async def test_a_record_that_its_region_cannot_keep_is_kept_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    regions = Regions("eu-west", "us-east")

    async def full(_: AuditRecord) -> None:
        raise StoreUnavailable("eu-west", "no answer", sent=False)

    monkeypatch.setattr(regions.stores["eu-west"], "audit", full)
    await regions.done(("eu-west", "a"))
    page = await regions.audit.page(["us-east"], 10, "")
    assert [record.on for record in page.records] == ["a"]


@pytest.mark.parametrize("token", ["x", "e30", "W10=", "eyJhIjogMX0=", "\ud800"])
async def test_a_token_that_no_page_gave_is_refused(token: str) -> None:
    with pytest.raises(InvalidTask):
        await Regions("eu-west").audit.page(["eu-west"], 10, token)


@pytest.mark.parametrize(
    "place",
    ["--", "1-\u00b2", "\u0661-0", "9" * 30 + "-0", f"{1 << 64}-0", "0-0", "1", "1-2-3", "-1"],
)
async def test_a_token_with_a_place_that_no_record_has_is_refused(place: str) -> None:
    token = base64.urlsafe_b64encode(json.dumps({"eu-west": place}).encode()).decode()
    with pytest.raises(InvalidTask):
        await Regions("eu-west").audit.page(["eu-west"], 10, token)


@pytest.mark.parametrize(
    ("sent", "kept"), [(10**30, (1 << 63) - 1), (-5, 0), ("7", 7)], ids=["huge", "negative", "text"]
)
def test_a_count_that_no_message_can_carry_is_cut(sent: object, kept: int) -> None:
    data = json.dumps({"deed": "purge", "who": "ann", "counts": {"q": sent}}).encode()
    record = decode(data, region="r", place=PLACE)
    assert record.counts == {"q": kept}
    assert wire.audit_record(record).counts == {"q": kept}


def test_a_count_without_an_end_is_damage() -> None:
    data = b'{"deed": "purge", "who": "ann", "counts": {"q": 1e999}}'
    assert decode(data, region="r", place=PLACE).deed == DAMAGED


def test_texts_that_no_message_can_carry_are_told_as_far_as_they_can() -> None:
    half = "ann\ud800"
    found = {"deed": half, "who": half, "counts": {half: 1}, "told": {half: half}}
    data = json.dumps(found).encode()
    record = decode(data, region="r", place=PLACE)
    assert (record.who, record.counts, record.told) == ("ann?", {"ann?": 1}, {"ann?": "ann?"})
    assert wire.audit_record(record).deed == "ann?"
    written = AuditRecord(half, half, half, half, {half: 1}, {half: half})
    assert decode(encode(written), region="r", place=PLACE).on == "ann?"


async def never(_: AuditRecord) -> None:
    await asyncio.Event().wait()


async def test_a_region_that_is_silent_is_asked_last(monkeypatch: pytest.MonkeyPatch) -> None:
    regions = Regions("eu-west", "us-east", "ap-south")
    for name in ("eu-west", "us-east"):
        monkeypatch.setattr(regions.stores[name], "audit", never)
    records = Audit(regions.stores, lambda name: name == "ap-south")
    await records.note(AuditRecord("pause", "ann", on="a"), "eu-west")
    page = await records.page(["ap-south"], 10, "")
    assert [record.on for record in page.records] == ["a"]


async def test_a_region_that_falls_silent_leaves_time_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    regions = Regions("eu-west", "us-east")
    monkeypatch.setattr(regions.stores["eu-west"], "audit", never)
    await regions.audit.note(AuditRecord("pause", "ann", on="a"), "eu-west")  # nobody knows yet
    page = await regions.audit.page(["us-east"], 10, "")
    assert [record.on for record in page.records] == ["a"]


async def test_a_record_is_given_up_in_time_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    regions = Regions("eu-west", "us-east")
    for store in regions.stores.values():
        monkeypatch.setattr(store, "audit", never)
    monkeypatch.setattr(audit, "_NOTED_S", 0.05)
    await regions.audit.note(AuditRecord("pause", "ann", on="a"), "eu-west")
    (line,) = caplog.records
    assert line.__dict__["on"] == "a"


def test_a_time_after_all_that_messages_can_carry_is_the_last_one() -> None:
    record = decode(b'{"deed": "purge", "who": "ann"}', region="r", place=f"{(1 << 64) - 1}-0")
    assert wire.audit_record(record).at.ToDatetime().year == 9999
