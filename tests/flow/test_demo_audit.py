"""The demo's audit: it passes for a complete story and names what is wrong with any other."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from examples.demo_load import ORIGINS, REPEATS, TOTAL, Kind, Order, orders
from examples.demo_report import Evidence, problems, show
from examples.sink import Delivery
from tradewind import Receipt, State, Stay, TaskFailure, TaskView
from tradewind.client.views import task_of
from tradewind.v1 import task_pb2


def complete() -> Evidence:
    plan = orders("http://127.0.0.1:1")
    receipts: dict[int, Receipt] = {}
    ends: dict[str, TaskView] = {}
    for order in plan:
        first = order.index if order.repeats is None else order.repeats
        region = "eu-west" if order.kind in {Kind.PERSONAL, Kind.KEPT} else order.origin
        duplicate = order.repeats is not None
        receipts[order.index] = Receipt(
            f"id-{first}", region, 0, State.PENDING, duplicate=duplicate, rule="home"
        )
        if not duplicate:
            ends[f"id-{first}"] = end(order, region)
    deliveries = [
        Delivery(view.task_id, "/hooks", view.region, 1)
        for view in ends.values()
        if view.state is State.COMPLETED
    ]
    return Evidence(plan, receipts, ends, deliveries, "us-east", 3, 1.0)


def end(order: Order, region: str) -> TaskView:
    dead = order.kind is Kind.KEPT
    state = State.DEAD_LETTER if dead else State.COMPLETED
    view = task_of(task_pb2.Task(task_id=f"id-{order.index}", region=region, settled=True))
    return replace(
        view,
        state=state,
        hops=(Stay(region, state, 3 if dead else 1, "", None),),
        error=TaskFailure("exhausted", "500") if dead else None,
        failover="no other permitted region" if dead else "",
    )


def with_end(seen: Evidence, kind: Kind, **changes: Any) -> Evidence:
    order = next(each for each in seen.orders if each.kind is kind)
    task_id = seen.first_id(order)
    return replace(seen, ends={**seen.ends, task_id: replace(seen.ends[task_id], **changes)})


def with_receipt(seen: Evidence, kind: Kind, **changes: Any) -> Evidence:
    index = next(each.index for each in seen.orders if each.kind is kind)
    changed = replace(seen.receipts[index], **changes)
    return replace(seen, receipts={**seen.receipts, index: changed})


ABROAD = (Stay("us-east", State.DEAD_LETTER, 3, "exhausted", None),)

BROKEN_STORIES: dict[str, tuple[Callable[[Evidence], Evidence], str]] = {
    "a submit without a receipt": (
        lambda seen: replace(seen, receipts={k: v for k, v in seen.receipts.items() if k != 5}),
        "no receipt",
    ),
    "a task that was never read back": (
        lambda seen: replace(seen, ends={k: v for k, v in seen.ends.items() if k != "id-0"}),
        "has not ended",
    ),
    "a task that still runs": (
        lambda seen: with_end(seen, Kind.WEBHOOK, settled=False),
        "has not ended",
    ),
    "a task that died elsewhere than planned": (
        lambda seen: with_end(seen, Kind.WEBHOOK, state=State.DEAD_LETTER),
        "ended as DEAD_LETTER",
    ),
    "a task that should have died and did not": (
        lambda seen: with_end(seen, Kind.KEPT, state=State.COMPLETED),
        "should be dead",
    ),
    "a duplicate that became a second task": (
        lambda seen: with_receipt(seen, Kind.REPEAT, task_id="another"),
        "made a second task",
    ),
    "a duplicate that is not called one": (
        lambda seen: with_receipt(seen, Kind.REPEAT, duplicate=False),
        "duplicate=False",
    ),
    "a delivery twice": (
        lambda seen: replace(seen, deliveries=[*seen.deliveries, seen.deliveries[0]]),
        "delivered twice",
    ),
    "a completed task that nobody received": (
        lambda seen: replace(seen, deliveries=seen.deliveries[1:]),
        "never delivered",
    ),
    "a delivery of no task": (
        lambda seen: replace(
            seen, deliveries=[*seen.deliveries, Delivery("stranger", "/hooks", "eu-west", 1)]
        ),
        "belong to no completed task",
    ),
    "personal data abroad": (
        lambda seen: with_end(seen, Kind.PERSONAL, hops=ABROAD),
        "with personal data was in ['us-east']",
    ),
}


@pytest.mark.parametrize(
    ("spoil", "problem"), list(BROKEN_STORIES.values()), ids=list(BROKEN_STORIES)
)
def test_the_audit_names(spoil: Callable[[Evidence], Evidence], problem: str) -> None:
    found = problems(spoil(complete()))
    assert any(problem in line for line in found), found


def test_the_audit_passes_a_complete_story_and_shows_it() -> None:
    seen = complete()
    out = Console(record=True, width=120, quiet=True)
    assert problems(seen) == []
    show(seen, out)


def test_the_load_is_a_thousand_submits_from_every_origin_and_the_same_each_time() -> None:
    plan = orders("http://127.0.0.1:1")
    assert len(plan) == TOTAL
    assert {order.origin for order in plan} == set(ORIGINS)
    assert sum(order.kind is Kind.REPEAT for order in plan) == REPEATS
    assert sum(order.kind is Kind.KEPT for order in plan) == 1
    assert plan == orders("http://127.0.0.1:1")
    for order in plan:
        if order.repeats is not None:
            assert order.repeats < order.index
            assert "idempotency_key" in plan[order.repeats].request.options
