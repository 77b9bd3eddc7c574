"""What clients and operators may do."""

from hypothesis import strategies as st
from hypothesis.stateful import (
    precondition,
    rule,
)

from tests.machine.model import Entry, Place
from tests.machine.workers import SETTLED_AS, Workers
from tests.machine.world import (
    LEASE_MS,
    MAX_TASKS,
    dead_at,
    drifts,
    lost,
    other,
    picked,
    picks,
    regions,
)
from tests.scripts.world import DAY_MS, PLACE, a_mark, a_task, an_id
from tradewind.state import Mark, State
from tradewind.task import (
    Cancelled,
    CancelRequested,
    Pointer,
    Record,
    Stored,
    TooLateToCancel,
)

CANCELLABLE = {
    State.PENDING,
    State.SCHEDULED,
    State.PROCESSING,
    State.FAILED,
    State.DEAD_LETTER,
}


class Clients(Workers):
    """Cancels, redrives, purges."""

    @precondition(lambda self: self.model.places)
    @rule(pick=picks, lost=lost, really=st.sampled_from([False, False, True]))
    def cancel(self, pick: int, lost: bool, really: bool) -> None:
        """Mostly of what cannot be cancelled: every other task is at its end afterwards."""
        places = [
            (where, place)
            for where, place in self.model.places.items()
            if really or place.state not in CANCELLABLE
        ]
        if places:
            self.cancel_now(*picked(places, pick), times=1 + lost)

    @precondition(lambda self: self.under_way())
    @rule(pick=picks, report=st.sampled_from(["", "", *sorted(SETTLED_AS)]), late=st.booleans())
    def cancel_under_way(self, pick: int, report: str, late: bool) -> None:
        """A cancel that comes before, or after, its holder reports or is found dead."""
        where, place = picked(self.under_way(), pick)
        holders = [c for c in self.claims if (c.region, c.task_id) == where and place.holds(c)]
        if not late:
            self.cancel_now(where, place)
        if report and holders:
            self.settle_now(holders[-1], report)
        elif not report:
            self.reap_now(where[0])
        if late:
            self.cancel_now(where, place)

    def under_way(self) -> list[tuple[tuple[str, str], Place]]:
        """Tasks that run, or wait for their next attempt: the rare ones last."""
        items = self.model.places.items()
        states = (State.PROCESSING, State.FAILED)
        return [(where, p) for state in states for where, p in items if p.state is state]

    def cancel_now(self, where: tuple[str, str], place: Place, times: int = 1) -> None:
        region, task_id = where
        answers = [
            self.run(self.stores[region].cancel(task_id, retention_ms=DAY_MS)) for _ in range(times)
        ]
        match place.state:
            case None:
                expected = Pointer(task_id, Mark.FORWARDED, place.epoch, place.target)
            case State.PROCESSING:
                expected = CancelRequested(task_id)
                place.asked = True
            case State.COMPLETED | State.EXPIRED | State.MOVING:
                expected = TooLateToCancel(task_id, place.state)
            case _:
                expected = Cancelled(task_id)
                place.state = State.CANCELLED
        assert answers == [expected] * len(answers)

    @precondition(lambda self: self.dead())
    @rule(pick=picks)
    def old_news(self, pick: int) -> None:
        """Nothing is done to a dead task by whoever read it at another epoch."""
        (region, task_id), place = picked(self.dead(), pick)
        for epoch in (place.epoch - 1, place.epoch + 1):
            assert not self.run(self.stores[region].redrive(task_id, epoch))
            assert not self.run(self.stores[region].purge(task_id, epoch))

    def dead(self) -> list[tuple[tuple[str, str], Place]]:
        items = self.model.places.items()
        return [(where, p) for where, p in items if p.state is State.DEAD_LETTER]

    @precondition(lambda self: self.model.alive() < MAX_TASKS)
    @rule(region=regions)
    def cancel_all_but_one(self, region: str) -> None:
        """Their tickets stay in front of the one that is left."""
        for _ in range(2):
            self.enqueue_now(region)
        for task_id in self.model.ready(region)[:-1]:
            self.cancel_now((region, task_id), self.model.places[region, task_id])
        self.claims += self.claim_now(region, 3, 3, lease_ms=LEASE_MS)

    @precondition(lambda self: self.model.places)
    @rule(region=regions)
    def reconcile(self, region: str) -> None:
        """Where every index is right, looking for what none of them names changes nothing."""
        known = [*self.model.held(region), an_id()]
        found = self.run(self.stores[region].reconcile(PLACE, known))
        assert found.repairs == ()
        assert not self.run(self.stores[region].recount(PLACE, ["mail"]))

    @precondition(lambda self: self.model.ledger)
    @rule(pick=picks, wrong=st.booleans())
    def forget(self, pick: int, wrong: bool) -> None:
        """The router does so for a cancelled task, late or twice; others' entries stay."""
        (region, key), entry = picked(list(self.model.ledger.items()), pick)
        place = self.model.at(entry.region, entry.task_id)
        ended = place is not None and place.state is State.CANCELLED
        task_id = entry.task_id if ended and not wrong else an_id()
        mark = a_mark(key, business=False)
        answer = self.run(self.stores[region].forget(mark, task_id))
        assert answer is (task_id == entry.task_id)
        if answer:
            del self.model.ledger[region, key]
            self.late_submitter(region, key, entry)

    def late_submitter(self, home: str, key: bytes, old: Entry) -> None:
        """The key is another submit's by now: whoever had the first in hand changes nothing."""
        mark, store = a_mark(key, business=False), self.stores[home]
        self.reserve_now(home, key, other(home))
        assert not self.run(store.confirm(mark, old.task_id, old.epoch))
        assert not self.run(store.unreserve(mark, old.task_id, old.epoch))

    @precondition(lambda self: self.records)
    @rule(pick=picks, drift=drifts, lost=lost)
    def redrive(self, pick: int, drift: int, lost: bool) -> None:
        self.redrive_now(picked(self.records, pick), drift, lost=lost)

    def redrive_now(self, record: Record, drift: int = 0, *, lost: bool = False) -> None:
        region, task_id, epoch = record.region, record.task_id, record.epoch + drift
        place = self.model.at(region, task_id)
        answer = self.run(self.stores[region].redrive(task_id, epoch))
        assert answer is dead_at(place, epoch)
        if answer and place is not None:
            place.state, place.crashes, place.settled = State.PENDING, 0, False
            place.crashed = False
            if lost:
                assert not self.run(self.stores[region].redrive(task_id, epoch))

    @precondition(lambda self: self.records)
    @rule(pick=picks, drift=st.sampled_from([-1, 0, 1, 1]))
    def purge(self, pick: int, drift: int) -> None:
        record = picked(self.records, pick)
        epoch = record.epoch + drift
        place = self.model.at(record.region, record.task_id)
        answer = self.run(self.stores[record.region].purge(record.task_id, epoch))
        assert answer is dead_at(place, epoch)
        if answer:
            del self.model.places[record.region, record.task_id]
            self.model.purged[record.region, record.task_id] = epoch
            self.model.last_token.pop(record.task_id, None)
            for repeat in (1, epoch, epoch + 1):
                self.stays_away(record.region, record.task_id, repeat)

    def stays_away(self, region: str, task_id: str, epoch: int) -> None:
        """A repeat of its submit, here or by one who looks for another region, stores nothing."""
        was_here = Stored(task_id, State.DEAD_LETTER, created=False)
        task = a_task(task_id, epoch=epoch)
        ((answer,), _) = self.run(self.stores[region].enqueue([task], timeout_s=5))
        assert answer == was_here
        assert self.run(self.stores[region].refuse(task_id, epoch)) == was_here
