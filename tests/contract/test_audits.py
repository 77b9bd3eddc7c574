"""The port Audits: what operators did, kept and read."""

import pytest

from tests.any_store import AnyStore
from tradewind.audit import AuditRecord
from tradewind.store import audit as on_redis
from tradewind.testing.memory import audit as in_memory

DEED = AuditRecord(
    deed="redrive",
    who="ann@desk (127.0.0.1)",
    on="mail",
    why="the bank is back",
    counts={"mail": 12},
    told={"error_kind": "exhausted"},
)


async def test_a_region_that_nobody_touched_has_no_records(store: AnyStore) -> None:
    assert await store.audited(before="", limit=10) == []


async def test_a_record_says_who_did_what_why_how_often_and_when(store: AnyStore) -> None:
    await store.audit(DEED)
    (kept,) = await store.audited(before="", limit=10)
    assert (kept.deed, kept.who, kept.on, kept.why) == ("redrive", DEED.who, "mail", DEED.why)
    assert (kept.counts, kept.told) == (DEED.counts, DEED.told)
    assert kept.region == store.region
    assert kept.at_ms > 1_700_000_000_000, "the region's own clock"


async def test_the_latest_comes_first_and_pages_follow_each_other(store: AnyStore) -> None:
    for number in range(5):
        await store.audit(AuditRecord("pause", "ann", on=f"q{number}"))
    first = await store.audited(before="", limit=2)
    second = await store.audited(before=first[-1].place, limit=2)
    third = await store.audited(before=second[-1].place, limit=2)
    assert [each.on for each in (*first, *second, *third)] == ["q4", "q3", "q2", "q1", "q0"]


async def test_the_oldest_records_go(store: AnyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    most, slack = 300, 100  # Redis cuts a stream by whole nodes of a hundred entries
    monkeypatch.setattr(on_redis, "MAX_RECORDS", most)
    monkeypatch.setattr(in_memory, "MAX_RECORDS", most)
    for number in range(most + 2 * slack):
        await store.audit(AuditRecord("resume", "ann", on=str(number)))
    kept = await store.audited(before="", limit=2 * most)
    assert most <= len(kept) <= most + slack
    assert kept[0].on == str(most + 2 * slack - 1)
