import re
from pathlib import Path

from prometheus_client import Metric

from tradewind import metrics
from tradewind.fleet import Fleet, QueuePolicy

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def families() -> dict[str, Metric]:
    """Our families by exposed name; those of a Counter end in `_total`."""
    return {
        f"{family.name}_total" if family.type == "counter" else family.name: family
        for family in metrics.REGISTRY.collect()
        if family.name.startswith("tradewind_")
    }


def documented() -> dict[str, tuple[str, str]]:
    rows = re.findall(r"^\| `(tradewind_\w+)` \| (\w+) \|([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    return {name: (kind, labels.strip()) for name, kind, labels in rows}


def test_the_page_lists_exactly_the_families_of_the_code() -> None:
    assert {name: kind for name, (kind, _) in documented().items()} == {
        name: family.type for name, family in families().items()
    }


def test_the_page_names_every_value_of_every_closed_label() -> None:
    text = PAGE.read_text()
    closed = (
        *metrics.SUBMIT_OUTCOMES,
        *metrics.ROUTING_REFUSALS,
        *metrics.PROCESS_OUTCOMES,
        *metrics.FAILURE_KINDS,
        *metrics.MOVE_OUTCOMES,
        *metrics.SLOT_KINDS,
        *metrics.REGION_STATES,
        *metrics.PRIORITIES,
    )
    assert [value for value in closed if f"`{value}`" not in text] == []


def test_queue_names_that_a_caller_invents_make_one_series() -> None:
    known = Fleet(regions={}, queues={"mail": QueuePolicy()})
    named = [metrics.queue_label(known, name) for name in ("mail", "default", "x1", "x2", "")]
    assert named == ["mail", "default", "other", "other", "other"]


def test_exposition_is_prometheus_text() -> None:
    metrics.LEASE_LOST.inc(0)
    assert b"\ntradewind_lease_lost_total " in metrics.exposition()


def test_no_series_tells_when_another_was_created() -> None:
    metrics.SUBMIT_SECONDS.observe(0.1)
    text = metrics.exposition()
    assert b"tradewind_submit_seconds_count" in text
    assert b"_created" not in text


def test_many_values_at_once_count_as_each_of_them_would() -> None:
    values = (0.0, 0.001, 0.0011, 0.3, 99_999.0, 0.3)
    one_by_one, at_once = (
        metrics.Distribution("seconds", "", buckets=(0.001, 0.5), registry=None) for _ in range(2)
    )
    for value in values:
        one_by_one.observe(value)
    at_once.observe_all(values)
    samples = [
        [(s.name, s.labels, s.value) for family in one.collect() for s in family.samples]
        for one in (one_by_one, at_once)
    ]
    assert [s for s in samples[0] if s[0] != "seconds_created"] == [
        s for s in samples[1] if s[0] != "seconds_created"
    ]
    assert ("seconds_bucket", {"le": "0.001"}, 2.0) in samples[1]
