"""A paused queue that goes on taking tasks makes nobody else wait."""

from collections.abc import Mapping

from router.held_back import HeldBack
from tests.unit.policy.worlds import fleet, region
from tradewind.errors import StoreUnavailable
from tradewind.policy import filters
from tradewind.policy.scores import wait_s
from tradewind.task import QueueCounts
from tradewind.view import RegionView


class Counts:
    """A region with so many ready tasks by queue; none: it does not answer."""

    def __init__(self, **ready: int) -> None:
        self.ready = ready

    async def counts(self) -> Mapping[str, QueueCounts]:
        if not self.ready:
            raise StoreUnavailable("eu", "gone", sent=False)
        return {
            queue: QueueCounts(pending=(1, count - 1, 0)) for queue, count in self.ready.items()
        }


class Census:
    """What was told of regions, all of which but `down` answer."""

    def __init__(self) -> None:
        self.told: dict[str, int] = {}

    def answers(self, region: str) -> bool:
        return region != "down"

    def hold_back(self, region: str, tasks: int) -> None:
        self.told[region] = tasks


async def test_ready_tasks_of_paused_queues_are_counted_until_they_are_resumed() -> None:
    stores = {"eu": Counts(mail=5, reports=7), "us": Counts(mail=3), "down": Counts(mail=9)}
    census, paused = Census(), set[str]()
    held = HeldBack(stores, census, lambda: paused)
    await held.look()
    assert census.told == {}, "nothing is asked while nothing is paused"
    paused.add("mail")
    await held.look()
    assert census.told == {"eu": 5, "us": 3}
    stores["eu"].ready = {}
    await held.look()
    assert census.told == {"eu": 5, "us": 3}, "the last number of one that does not answer"
    paused.clear()
    await held.look()
    assert census.told == {"eu": 0, "us": 0}


def test_nobody_waits_behind_what_is_held_back_and_it_counts_as_backlog() -> None:
    full = RegionView("eu", 1.0, depth=600, slots=10, rate=10.0, service_s=1.0)
    paused = RegionView("eu", 1.0, depth=600, slots=10, rate=10.0, service_s=1.0, held_back=590)
    many = RegionView("eu", 1.0, depth=100_000, slots=10, rate=10.0, held_back=100_000)

    def reasons(view: RegionView) -> tuple[str, ...]:
        where, of = region("eu", "eu"), fleet(region("eu", "eu"))
        return filters.conditions(view, where, of, "mail", "send", wait_s(view))

    assert filters.WAIT in reasons(full)
    assert reasons(paused) == ()
    assert wait_s(paused) < 2
    assert reasons(many) == (filters.BACKLOG,)
    stale = RegionView("eu", 1.0, depth=5, slots=10, free_slots=10, held_back=9)
    assert wait_s(stale) == 0
