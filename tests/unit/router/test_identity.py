from dataclasses import replace
from typing import Any

import pytest

from tradewind.admission.identity import Identity, dedup_by, homes, identify, partition
from tradewind.fingerprint import read_body
from tradewind.fleet import Dedup, Fleet, QueuePolicy, RedisTarget, Region
from tradewind.ids import partition_of
from tradewind.limits import REQUEST_ID_WINDOW_MS
from tradewind.task import Draft

HERE = RedisTarget("standalone", ("127.0.0.1:1",))
FLEET = Fleet(
    regions={
        name: Region(name, HERE, (group,))
        for name, group in (("eu-west", "eu"), ("eu-north", "eu"), ("us-east", "us"))
    }
)


def who(fleet: Fleet = FLEET, fence: tuple[str, ...] = (), **fields: Any) -> Identity:
    given: dict[str, Any] = {"name": "n", "payload": b"{}"} | fields
    draft = Draft(**given)
    return identify(draft, read_body(draft.payload, draft.content_type), fence, fleet)


def by_payload(**changes: Any) -> Fleet:
    return replace(FLEET, default_queue=QueuePolicy(dedup=Dedup(by="payload", **changes)))


KNOWN: dict[str, tuple[Fleet, dict[str, Any], str]] = {
    "by nothing": (FLEET, {}, ""),
    "by its request_id": (FLEET, {"request_id": "r"}, "request_id"),
    "by its key": (FLEET, {"request_id": "r", "idempotency_key": "k"}, "key"),
    "by its payload": (by_payload(), {"request_id": "r"}, "payload"),
    "by its key, though the payload would do": (by_payload(), {"idempotency_key": "k"}, "key"),
    "by its request_id where keys do not count": (
        replace(FLEET, default_queue=QueuePolicy(dedup=Dedup(by="none"))),
        {"request_id": "r", "idempotency_key": "k"},
        "request_id",
    ),
}


@pytest.mark.parametrize(("fleet", "fields", "by"), KNOWN.values(), ids=KNOWN)
def test_a_repeat_is_known(fleet: Fleet, fields: dict[str, Any], by: str) -> None:
    assert dedup_by(Draft("n", **fields), fleet) == by
    mark = who(fleet, **fields).mark
    assert (mark is not None) == bool(by)
    assert mark is None or mark.business == (by != "request_id")


def test_without_a_key_there_is_no_entry() -> None:
    one = who()

    assert (one.mark, one.home, one.deduplicated) == (None, "", False)
    assert one.fingerprint == b""  # nobody asks for it: whoever reads the task can reckon it


def test_an_idempotency_key_makes_a_business_entry_for_the_queues_window() -> None:
    one = who(idempotency_key="k")

    assert one.mark is not None
    assert one.deduplicated
    assert (one.mark.business, one.mark.window_ms) == (True, 24 * 3_600_000)
    assert one.mark.request_tag == b""


def test_the_fingerprint_of_a_key_does_not_look_at_the_payload_but_the_digest_does() -> None:
    one = who(idempotency_key="k", payload=b'{"a":1}')
    two = who(idempotency_key="k", payload=b'{"a":2}')

    assert one.fingerprint == two.fingerprint
    assert one.mark is not None
    assert two.mark is not None
    assert one.mark.key == two.mark.key
    assert one.mark.digest != two.mark.digest


def test_another_request_id_may_be_kept_where_this_one_is_not() -> None:
    one = who(request_id="r", origin_region="us-east")

    assert one.never_asked == {"eu-west", "eu-north"} - {one.spare}
    assert who(request_id="r", fence=("eu",)).never_asked == set()
    assert who(idempotency_key="k", request_id="r").never_asked == set()


def test_a_request_id_alone_makes_an_entry_for_15_minutes_that_deduplicates_nothing() -> None:
    one = who(request_id="r")

    assert one.mark is not None
    assert not one.deduplicated
    assert (one.mark.business, one.mark.window_ms) == (False, REQUEST_ID_WINDOW_MS)
    assert len(one.mark.request_tag) == 16


def test_a_key_with_a_request_id_is_a_business_entry_that_knows_its_repeats() -> None:
    one = who(idempotency_key="k", request_id="r")

    assert one.mark is not None
    assert one.mark.business
    assert one.mark.request_tag == (who(request_id="r").mark or one.mark).request_tag


def test_a_queue_that_dedups_by_payload_needs_no_key() -> None:
    one = who(by_payload(), payload=b'{"b":1, "a":2}')
    two = who(by_payload(), payload=b'{"a":2,"b":1}')

    assert one.mark is not None
    assert one.mark == two.mark
    assert one.deduplicated


def test_the_home_is_inside_the_fence_and_the_same_for_everybody() -> None:
    for number in range(50):
        home = who(fence=("eu",), idempotency_key=f"k{number}").home
        assert home in {"eu-west", "eu-north"}
        assert home == who(fence=("eu",), idempotency_key=f"k{number}").home


def test_homes_spread_over_the_regions_whatever_their_weights() -> None:
    heavy = replace(
        FLEET,
        regions={
            name: replace(region, weight=1_000 if name == "us-east" else 1)
            for name, region in FLEET.regions.items()
        },
    )
    homes = [who(heavy, idempotency_key=f"k{number}").home for number in range(300)]

    assert all(60 < homes.count(name) < 140 for name in FLEET.regions)


def test_the_home_of_a_request_id_is_the_callers_region_where_the_fence_allows() -> None:
    assert who(request_id="r", origin_region="us-east").home == "us-east"
    assert who(request_id="r", origin_region="us-east", fence=("eu",)).home != "us-east"
    assert who(request_id="r").home == who(request_id="r").home


def test_only_an_entry_for_a_request_id_has_a_spare_home_inside_the_fence_and_not_at_home() -> None:
    for number in range(50):
        one = who(request_id=f"r{number}", origin_region="us-east")
        fenced = who(request_id=f"r{number}", fence=("eu",))
        assert (one.home, one.spare) in {("us-east", "eu-west"), ("us-east", "eu-north")}
        assert {fenced.home, fenced.spare} == {"eu-west", "eu-north"}

    assert who(request_id="r", fence=("us",)).spare == ""
    assert who(request_id="r", idempotency_key="k").spare == ""


def test_whether_there_is_a_spare_home_is_known_without_reckoning_which() -> None:
    everyone = [
        *(who(request_id=f"r{n}", origin_region="us-east") for n in range(20)),
        *(who(request_id=f"r{n}", fence=fence) for n in range(20) for fence in (("eu",), ("us",))),
        who(request_id="r", idempotency_key="k"),
        who(),
    ]

    assert [one.has_spare for one in everyone] == [bool(one.spare) for one in everyone]
    assert {one.has_spare for one in everyone} == {True, False}


def test_dedup_within_a_region_has_its_home_wherever_the_task_goes() -> None:
    assert who(by_payload(scope="region")).home == ""


def test_the_partition_is_that_of_the_affinity_key_else_of_the_entry_else_any() -> None:
    keyed = who(idempotency_key="k")
    assert keyed.mark is not None

    assert partition(Draft("n", affinity_key="u"), keyed, 64, 5) == partition_of(b"u", 64)
    assert partition(Draft("n"), keyed, 64, 5) == partition_of(keyed.mark.key, 64)
    assert partition(Draft("n"), who(), 64, 69) == 5


def changed(name: str, **changes: Any) -> Fleet:
    one = replace(FLEET.regions[name], **changes)
    return replace(FLEET, regions={**FLEET.regions, name: one})


def keys(count: int = 300) -> list[bytes]:
    return [f"key {number}".encode() for number in range(count)]


def test_a_region_that_joins_or_leaves_keeps_no_entry_alone_and_every_one_that_it_will_have() -> (
    None
):
    smaller = replace(FLEET, regions={k: v for k, v in FLEET.regions.items() if k != "us-east"})
    for changing in (changed("us-east", new=True), changed("us-east", weight=0)):
        seen: set[int] = set()
        for key in keys():
            found = homes(key, (), changing)
            seen.add(len(found))
            assert found[0] == homes(key, (), smaller)[0]
            assert found[-1] == homes(key, (), FLEET)[0]
        assert seen == {1, 2}


def test_without_a_change_every_key_has_one_home() -> None:
    assert {len(homes(key, (), FLEET)) for key in keys()} == {1}


def test_a_fence_whose_only_regions_are_leaving_still_has_a_home() -> None:
    assert homes(b"k", ("us",), changed("us-east", weight=0)) == ("us-east",)


def test_a_fence_without_regions_has_no_home() -> None:
    assert homes(b"k", ("moon",), FLEET) == ()


def test_the_spare_home_of_a_request_id_is_where_another_file_has_its_home() -> None:
    changing = changed("us-east", new=True)
    spares: list[str] = []
    for number in range(100):
        now, later = (who(fleet, request_id=f"r{number}") for fleet in (changing, FLEET))
        assert later.home in {now.home, now.spare}
        assert now.home in {later.home, later.spare}
        assert now.home != "us-east"
        spares.append(now.spare)
    assert "us-east" in spares


def test_only_a_queue_that_accepts_has_stand_ins_and_they_are_inside_the_fence() -> None:
    lenient = replace(FLEET, default_queue=QueuePolicy(dedup=Dedup(on_home_unreachable="accept")))
    one = who(lenient, idempotency_key="k")
    fenced = who(lenient, fence=("eu",), idempotency_key="k")

    assert {one.home, *one.stand_ins} == set(FLEET.regions)
    assert {fenced.home, *fenced.stand_ins} == {"eu-west", "eu-north"}
    assert who(idempotency_key="k").stand_ins == ()
    assert who(lenient, request_id="r").stand_ins == ()


def test_request_ids_of_one_group_lead_to_one_partition_and_to_entries_of_their_own() -> None:
    group = "0123456789abcdef" * 2
    drafts = [Draft("n", payload=b"{}", request_id=f"{group}.{n}") for n in range(1, 9)]
    them = [who(request_id=draft.request_id) for draft in drafts]

    places = {partition(draft, one, 64, 0) for draft, one in zip(drafts, them, strict=True)}

    assert len(places) == 1
    assert len({one.mark.key for one in them if one.mark}) == 8
