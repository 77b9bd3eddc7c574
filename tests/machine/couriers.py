"""Moves between the regions. A courier keeps its two promises: it lets go only of what the
target has, and restores only what the target fenced.
"""

from hypothesis import strategies as st
from hypothesis.stateful import (
    precondition,
    rule,
)

from tests.machine.clients import Clients
from tests.machine.model import AWAY, Place
from tests.machine.world import LONG_MS, dead_at, lost, other, picked, picks, regions
from tests.scripts.world import DAY_MS, LATER_MS, PLACE
from tradewind.state import State
from tradewind.task import (
    Exported,
    Record,
)


class Couriers(Clients):
    """Both sides of every move, each step repeated and late."""

    @precondition(lambda self: self.with_ready())
    @rule(
        pick=picks,
        limit=st.integers(1, 3),
        leave=st.booleans(),
        late=st.booleans(),
    )
    def die(self, pick: int, limit: int, leave: bool, late: bool) -> None:
        """Claims and their burials at once: moves begin with dead tasks."""
        region = picked(self.with_ready(), pick)
        claims = self.claim_now(region, limit, LONG_MS)
        for claim in claims:
            self.settle_now(claim, "bury")
            self.records.append(self.run(self.stores[region].read(claim.task_id)))
            if late:
                self.pass_time([(claim.region, claim.task_id)])
            if leave:
                self.export(self.records[-1], other(region), lost=False)
        self.claims += claims

    @precondition(lambda self: self.records)
    @rule(region=regions)
    def look_into_the_outbox(self, region: str) -> None:
        listed: list[Record] = self.run(self.stores[region].outbox(PLACE, limit=64))
        expected = {
            task_id
            for (where, task_id), place in self.model.places.items()
            if where == region and place.state is State.DEAD_LETTER and not place.settled
        }
        assert {record.task_id for record in listed} == expected
        self.records += listed

    @precondition(lambda self: self.records)
    @rule(pick=picks, away=st.sampled_from([True, False, False]), lost=lost)
    def begin_export(self, pick: int, away: bool, lost: bool) -> None:
        record = picked(self.records, pick)
        self.export(record, AWAY if away else other(record.region), lost=lost)

    def export(self, record: Record, target: str, *, lost: bool) -> None:
        region, place = record.region, self.model.at(record.region, record.task_id)
        exported = self.run(self.stores[region].begin_export(record, target, groups=[]))
        moving = (State.MOVING, record.epoch + 1, target)
        if place is None:
            assert exported is None
            return
        if (place.state, place.epoch, place.target) == moving:
            assert exported is not None
        elif place.state is State.DEAD_LETTER and place.epoch == record.epoch and not place.settled:
            assert exported is not None
            place.state, place.epoch, place.target = moving
        else:
            assert exported is None
            return
        if not lost:
            self.exports.append((region, exported))

    @precondition(lambda self: self.records)
    @rule(region=regions)
    def look_at_moves(self, region: str) -> None:
        moves: list[Exported] = self.run(self.stores[region].moving(PLACE, limit=64))
        self.exports += [(region, exported) for exported in moves]

    @precondition(lambda self: self.exports)
    @rule(pick=picks, lost=lost)
    def import_task(self, pick: int, lost: bool) -> None:
        _, exported = picked(self.exports, pick)
        task_id, epoch, target = exported.record.task_id, exported.epoch, exported.target
        if target == AWAY:
            return
        memory, place = self.model.remembered(target, task_id), self.model.at(target, task_id)
        answer = self.run(self.stores[target].import_task(exported, hops=b"h", timeout_s=5))
        if memory.came >= epoch:
            assert answer == "known"
        elif memory.refused >= epoch:
            assert answer == "refused"
        elif place is not None and place.state is not None:
            # Back before this region's own courier has heard that it had left: not yet.
            assert (answer, place.state) == ("refused", State.MOVING)
        else:
            assert answer == "imported"
            assert place is None or place.epoch < epoch
            memory.came = epoch
            expires_ms = exported.record.expires_ms
            over = 0 < expires_ms < LATER_MS
            self.model.places[target, task_id] = Place(
                State.EXPIRED if over else State.PENDING,
                epoch,
                token=exported.record.token,
                expires=expires_ms > 0,
                over=over,
            )
        if answer != "refused" and not lost:
            self.has_it.add((task_id, epoch))

    @precondition(lambda self: self.exports)
    @rule(pick=picks, lost=lost)
    def refuse_import(self, pick: int, lost: bool) -> None:
        _, exported = picked(self.exports, pick)
        task_id, epoch, target = exported.record.task_id, exported.epoch, exported.target
        if target == AWAY:
            self.fenced.add((task_id, epoch))
            return
        memory = self.model.remembered(target, task_id)
        answer = self.run(self.stores[target].refuse_import(task_id, epoch))
        if memory.came >= epoch:
            assert answer == "imported"
            promises = self.has_it
        else:
            assert answer == "fenced"
            memory.refused = max(memory.refused, epoch)
            promises = self.fenced
        if not lost:
            promises.add((task_id, epoch))

    @precondition(lambda self: self.exports)
    @rule(pick=picks)
    def ack_export(self, pick: int) -> None:
        source, exported = picked(self.exports, pick)
        task_id, epoch, target = exported.record.task_id, exported.epoch, exported.target
        if (task_id, epoch) not in self.has_it:
            return
        place = self.model.at(source, task_id)
        expected = (
            place is not None
            and (place.epoch, place.target) == (epoch, target)
            and place.state in {State.MOVING, None}
        )
        answer = self.run(self.stores[source].ack_export(task_id, epoch, target, keep_ms=DAY_MS))
        assert answer is expected
        if answer and place is not None:
            place.state = None
            self.let_go.add((task_id, epoch))

    @precondition(lambda self: self.exports)
    @rule(pick=picks, later=st.booleans())
    def abort_export(self, pick: int, later: bool) -> None:
        source, exported = picked(self.exports, pick)
        task_id, epoch, target = exported.record.task_id, exported.epoch, exported.target
        if (task_id, epoch) not in self.fenced:
            return
        place = self.model.at(source, task_id)
        moving = (State.MOVING, epoch, target)
        expected = place is not None and (place.state, place.epoch, place.target) == moving
        answer = self.run(
            self.stores[source].abort_export(
                task_id, epoch, target, reason="r", retry_after_ms=0 if later else None
            )
        )
        assert (answer is State.DEAD_LETTER) is expected
        if expected and place is not None:
            place.state, place.target, place.settled = State.DEAD_LETTER, "", not later

    @precondition(lambda self: self.exports)
    @rule(pick=picks)
    def settle_import(self, pick: int) -> None:
        _, exported = picked(self.exports, pick)
        task_id, epoch = exported.record.task_id, exported.epoch
        if (task_id, epoch) in self.let_go:
            memory = self.model.remembered(exported.target, task_id)
            answer = self.run(self.stores[exported.target].settle_import(task_id, epoch))
            assert answer is (memory.came == epoch)

    @precondition(lambda self: self.records)
    @rule(pick=picks)
    def keep_for_good(self, pick: int) -> None:
        record = picked(self.records, pick)
        place = self.model.at(record.region, record.task_id)
        fresh = dead_at(place, record.epoch)
        expected = fresh and place is not None and not place.settled
        answer = self.run(self.stores[record.region].keep(record, reason="r", retry_after_ms=None))
        assert answer is expected
        if place is not None:
            place.settled = place.settled or fresh
