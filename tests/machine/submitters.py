"""Submits that several routers carry through at once, each of which may stop half-way.

The entry's home may be another region than the task's. A router keeps its promises: it leaves a
region only after `refuse` there, and confirms only what is stored.
"""

from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.stateful import (
    precondition,
    rule,
)

from tests.machine.model import Entry, Place
from tests.machine.world import (
    MAX_CRASHES,
    MAX_TASKS,
    World,
    lost,
    other,
    picked,
    picks,
    regions,
)
from tests.scripts.world import PLACE, a_mark, a_task, an_id, client_of
from tradewind.limits import NOT_AFTER_MS, RESERVATION_LEASE_MS, SECOND_MS
from tradewind.state import State
from tradewind.task import LedgerHit, NewTask, Stored, Tombstoned, TooLate

KEYS = st.sampled_from([b"c" * 32, b"d" * 32])


@dataclass
class Submit:
    """What one router has in hand of a submit."""

    home: str
    key: bytes
    task_id: str
    region: str
    epoch: int
    since_ms: int  # when it last looked at the clock
    stored: bool = False
    refused: bool = False


class Submitters(World):
    """reserve, enqueue, confirm; refuse, move on, take back; and whoever adopts."""

    def __init__(self) -> None:
        super().__init__()
        self.submits: list[Submit] = []

    @precondition(lambda self: self.model.alive() < MAX_TASKS)
    @rule(home=regions, key=KEYS, away=st.booleans(), lost=lost)
    def reserve(self, home: str, key: bytes, away: bool, lost: bool) -> None:
        """A submit, or its repeat at any router."""
        submit = self.reserve_now(home, key, other(home) if away else home)
        if submit is not None and not lost:
            self.submits.append(submit)

    def reserve_now(self, home: str, key: bytes, region: str) -> Submit | None:
        """The submit, if it is this caller's to carry through."""
        mark, task_id = a_mark(key, business=False), an_id()
        entry = self.model.ledger.get((home, key))
        answer = self.run(self.stores[home].reserve(mark, task_id, region, 1))
        if entry is None:
            assert answer is None
            entry = Entry(task_id, region, 1, confirmed=False)
            self.model.ledger[home, key] = entry
            entry.lease_until_ms = self.model.now_ms + RESERVATION_LEASE_MS
        elif not self.is_told_of(entry, answer):
            return None
        again = self.run(self.stores[home].reserve(mark, an_id(), region, 1))
        assert not self.is_told_of(entry, again)  # of two at once, one is to carry it through
        now_ms = self.model.now_ms
        return Submit(home, key, entry.task_id, entry.region, entry.epoch, now_ms)

    def is_told_of(self, entry: Entry, answer: object) -> bool:
        """What the ledger says to a repeat; true if the repeat is to carry the submit through."""
        assert isinstance(answer, LedgerHit)
        assert (answer.task_id, answer.region) == (entry.task_id, entry.region)
        assert (answer.epoch, answer.confirmed) == (entry.epoch, entry.confirmed)
        left_ms = max(0, entry.lease_until_ms - self.model.now_ms)
        assert answer.lease_left_ms == (0 if entry.confirmed else left_ms)
        assert answer.adopted is (not entry.confirmed and left_ms == 0)
        if answer.adopted:
            entry.lease_until_ms = self.model.now_ms + RESERVATION_LEASE_MS
        return answer.adopted

    @precondition(lambda self: self.submits)
    @rule(pick=picks, lost=lost)
    def store(self, pick: int, lost: bool) -> None:
        """However late: the router may have slept since it looked at the clock."""
        self.store_now(picked(self.submits, pick), lost=lost)

    def store_now(self, submit: Submit, *, lost: bool) -> None:
        local = submit.home == submit.region
        task = a_task(
            submit.task_id,
            epoch=submit.epoch,
            max_crashes=MAX_CRASHES,
            mark=a_mark(submit.key, business=False) if local else None,
        )
        outcome = self.enqueue_late(submit.region, task, submit.since_ms)
        place = self.model.at(submit.region, submit.task_id)
        entry = self.model.ledger.get((submit.home, submit.key)) if local else None
        if place is not None:
            assert outcome == Stored(submit.task_id, place.state or State.MOVING, created=False)
        elif (submit.region, submit.task_id) in self.model.purged:
            assert outcome == Stored(submit.task_id, State.DEAD_LETTER, created=False)
        elif self.model.tombs.get((submit.region, submit.task_id), 0) >= submit.epoch:
            assert outcome == Tombstoned(submit.task_id)
            return
        elif self.model.now_ms > submit.since_ms + NOT_AFTER_MS:
            assert outcome == TooLate(submit.task_id)
            return
        elif entry is not None and self.is_another_s(entry, submit):
            self.is_told_of(entry, outcome)
            return
        else:
            assert outcome == Stored(submit.task_id, State.PENDING, created=True)
            self.model.tombs.pop((submit.region, submit.task_id), None)
            self.model.places[submit.region, submit.task_id] = Place(State.PENDING, submit.epoch)
            if local:
                self.model.ledger[submit.home, submit.key] = Entry(
                    submit.task_id, submit.region, submit.epoch, confirmed=True
                )
        submit.stored = submit.stored or not lost

    def is_another_s(self, entry: Entry, submit: Submit) -> bool:
        ours = (entry.task_id, entry.confirmed) == (submit.task_id, False)
        return not ours or submit.epoch < entry.epoch

    def enqueue_late(self, region: str, task: NewTask, since_ms: int) -> object:
        """By the clock as the caller saw it at `since_ms`."""
        client_of(self.plain[region]).nodes.note_clock(PLACE, since_ms)
        ((outcome,), _) = self.run(
            self.stores[region].enqueue([task], timeout_s=NOT_AFTER_MS / SECOND_MS)
        )
        return outcome

    @precondition(lambda self: self.submits)
    @rule(pick=picks)
    def confirm(self, pick: int) -> None:
        self.confirm_now(picked(self.submits, pick))

    def confirm_now(self, submit: Submit) -> None:
        if submit.stored:
            entry = self.model.ledger.get((submit.home, submit.key))
            mark = a_mark(submit.key, business=False)
            answer = self.run(self.stores[submit.home].confirm(mark, submit.task_id, submit.epoch))
            assert answer is is_at(entry, submit)
            if answer and entry is not None:
                entry.confirmed = True

    @precondition(lambda self: any(not submit.stored for submit in self.submits))
    @rule(pick=picks)
    def leave(self, pick: int) -> None:
        """The region does not take it: make sure that it never will."""
        self.leave_now(picked([submit for submit in self.submits if not submit.stored], pick))

    def leave_now(self, submit: Submit) -> None:
        where = submit.region, submit.task_id
        place = self.model.at(*where)
        answer = self.run(self.stores[submit.region].refuse(submit.task_id, submit.epoch))
        if place is not None:
            assert answer == Stored(submit.task_id, place.state or State.MOVING, created=False)
            submit.stored = True
            return
        if where in self.model.purged:
            assert answer == Stored(submit.task_id, State.DEAD_LETTER, created=False)
            submit.stored = True
            return
        assert answer is None
        self.model.tombs[where] = max(self.model.tombs.get(where, 0), submit.epoch)
        submit.refused = True

    @precondition(lambda self: any(submit.refused for submit in self.submits))
    @rule(pick=picks, lost=lost)
    def move_on(self, pick: int, lost: bool) -> None:
        following = self.move_on_now(picked([s for s in self.submits if s.refused], pick))
        if lost and following is not None:
            self.submits.remove(following)

    def move_on_now(self, submit: Submit) -> Submit | None:
        region, epoch = other(submit.region), submit.epoch + 1
        entry = self.model.ledger.get((submit.home, submit.key))
        answer = self.run(
            self.stores[submit.home].reserve(
                a_mark(submit.key, business=False), submit.task_id, region, epoch
            )
        )
        self.submits.remove(submit)
        now_ms = self.model.now_ms
        ours = entry is not None and (entry.task_id, entry.confirmed) == (submit.task_id, False)
        follows = (
            ours
            and entry is not None
            and (entry.epoch == submit.epoch or (entry.epoch, entry.region) == (epoch, region))
        )
        if entry is not None and not follows:
            self.is_told_of(entry, answer)
            return None
        assert answer is None
        self.model.ledger[submit.home, submit.key] = Entry(
            submit.task_id, region, epoch, False, now_ms + RESERVATION_LEASE_MS
        )
        self.submits.append(Submit(submit.home, submit.key, submit.task_id, region, epoch, now_ms))
        return self.submits[-1]

    @precondition(lambda self: any(not submit.stored for submit in self.submits))
    @rule(pick=picks, times=st.sampled_from([1, 2, 3]), lost=lost)
    def go_round(self, pick: int, times: int, lost: bool) -> None:
        """From region to region, each of which refuses; stored where the last one takes it.

        And then another router wakes up, which had it in hand at the first.
        """
        submit = picked([submit for submit in self.submits if not submit.stored], pick)
        twin = replace(submit)
        for _ in range(times):
            self.leave_now(submit)
            if submit.stored:
                return
            following = self.move_on_now(submit)
            if following is None:
                return
            submit = following
            self.give_up_now(twin)
        self.store_now(submit, lost=lost)
        self.confirm_now(submit)
        self.leave_now(twin)
        if not twin.stored:
            self.submits.append(twin)
            self.move_on_now(twin)

    @precondition(lambda self: any(submit.refused for submit in self.submits))
    @rule(pick=picks)
    def give_up(self, pick: int) -> None:
        """No region takes it: nothing may be left of it."""
        submit = picked([submit for submit in self.submits if submit.refused], pick)
        self.give_up_now(submit)
        self.submits.remove(submit)

    def give_up_now(self, submit: Submit) -> None:
        entry = self.model.ledger.get((submit.home, submit.key))
        mark = a_mark(submit.key, business=False)
        answer = self.run(self.stores[submit.home].unreserve(mark, submit.task_id, submit.epoch))
        mine = is_at(entry, submit) and entry is not None and not entry.confirmed
        assert answer is mine
        if mine:
            del self.model.ledger[submit.home, submit.key]


def is_at(entry: Entry | None, submit: Submit) -> bool:
    """Whether the entry is where this router left it."""
    return entry is not None and (entry.task_id, entry.epoch) == (submit.task_id, submit.epoch)
