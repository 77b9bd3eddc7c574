"""Moves between the regions. A courier keeps its two promises: it lets go only of what the
target has, and restores only what the target fenced.
"""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import (
    precondition,
    rule,
)

from tests.machine.clients import Clients
from tests.machine.model import AWAY, WAITING, Place
from tests.machine.world import LEASE_MS, Move, dead_at, lost, other, picked, picks, regions
from tests.scripts.world import DAY_MS, PLACE, client_of
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
        limit=st.sampled_from([1, 2, 3]),
        leave=st.booleans(),
        revived=st.booleans(),
    )
    def die(self, pick: int, limit: int, leave: bool, revived: bool) -> None:
        """Claims and their burials at once: moves begin with dead tasks."""
        region = picked(self.with_ready(), pick)
        claims = self.claim_now(region, limit, limit, lease_ms=LEASE_MS)
        for claim in claims:
            self.settle_now(claim, "bury")
            self.records.append(self.run(self.stores[region].read(claim.task_id)))
            if revived:
                self.redrive_now(self.records[-1])
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

    def export(self, record: Record, target: str, *, lost: bool, rests: bool = False) -> None:
        region, place = record.region, self.model.at(record.region, record.task_id)
        reason = None if record.state is State.DEAD_LETTER and not rests else "evacuation"
        exported = self.run(
            self.stores[region].begin_export(record, target, groups=[], reason=reason)
        )
        moving = (State.MOVING, record.epoch + 1, target)
        if place is None:
            assert exported is None
            return
        if (place.state, place.epoch, place.target) == moving:
            assert exported is not None
        elif place.may(rests) and (place.state, place.epoch) == (record.state, record.epoch):
            assert exported is not None
            assert exported.former is place.state
            place.former, place.rests = place.state, rests
            place.state, place.epoch, place.target = moving
        else:
            assert exported is None
            return
        if not lost:
            self.moves.append(Move(region, exported, self.model.now_ms))

    @precondition(lambda self: self.records)
    @rule(region=regions)
    def look_at_moves(self, region: str) -> None:
        self.look_at(region)

    def look_at(self, region: str) -> None:
        moves: list[Exported] = self.run(self.stores[region].moving(PLACE, limit=64))
        self.moves += [Move(region, exported, self.model.now_ms) for exported in moves]

    @precondition(lambda self: self.moves)
    @rule(pick=picks, lost=lost)
    def import_task(self, pick: int, lost: bool) -> None:
        self.import_now(picked(self.moves, pick), lost=lost)

    def import_now(self, move: Move, *, lost: bool = False) -> None:
        if move.target == AWAY:
            return
        expected, target = self.answer_to(move), self.stores[move.target]
        answer = self.run(
            target.import_task(
                move.exported, hops=b"h", timeout_s=5, delay_ms=move.exported.delay_ms
            )
        )
        assert answer == expected
        if answer == "imported":
            self.arrive(move)
        if answer != "refused" and not lost:
            self.has_it.add((move.task_id, move.epoch))

    def answer_to(self, move: Move) -> str:
        """What an import must answer."""
        place = self.model.at(move.target, move.task_id)
        memory = self.model.remembered(move.target, move.task_id)
        if memory.came >= move.epoch:
            return "known"
        tomb = self.model.tombs.get((move.target, move.task_id), 0)
        if max(memory.refused, tomb) >= move.epoch:
            return "refused"
        if place is not None and place.epoch >= move.epoch:
            return "known"
        if (purged := self.model.purged.get((move.target, move.task_id))) is not None:
            return "known" if purged >= move.epoch else "refused"
        if place is not None and place.state is not None:
            # Back before this region's own courier has heard that it had left: not yet.
            assert place.state is State.MOVING
            return "refused"
        return "imported"

    def arrive(self, move: Move) -> None:
        record, now_ms = move.exported.record, self.model.now_ms
        self.model.remembered(move.target, move.task_id).came = move.epoch
        self.model.tombs.pop((move.target, move.task_id), None)
        place = Place(State.PENDING, move.epoch, token=record.token, expires_ms=record.expires_ms)
        if move.exported.former is not State.DEAD_LETTER:
            place.crashes = record.crashes
        if move.exported.delay_ms:
            place.state, place.due_ms = State.SCHEDULED, now_ms + move.exported.delay_ms
        if (resting := move.exported.resting) is not None:
            place.state, place.settled = State.DEAD_LETTER, True
            place.dead_until_ms = now_ms + resting.left_ms
        elif place.over(now_ms):
            place.state = State.EXPIRED
        self.model.places[move.target, move.task_id] = place

    @precondition(lambda self: self.moves)
    @rule(pick=picks)
    def import_by_an_old_clock(self, pick: int) -> None:
        """A courier that slept between looking at the clock and sending stores nothing."""
        self.late_import(picked(self.moves, pick))

    def late_import(self, move: Move) -> None:
        if move.target == AWAY:
            return
        nodes = client_of(self.plain[move.target]).nodes
        nodes.note_clock(PLACE, self.model.now_ms - 60_000)
        expected, target = self.answer_to(move), self.stores[move.target]
        answer = self.run(target.import_task(move.exported, hops=b"h", timeout_s=5))
        nodes.note_clock(PLACE, self.model.now_ms)
        assert answer == ("late" if expected == "imported" else expected)

    @precondition(lambda self: self.moves)
    @rule(pick=picks, lost=lost)
    def refuse_import(self, pick: int, lost: bool) -> None:
        self.refuse_now(picked(self.moves, pick), lost=lost)

    def refuse_now(self, move: Move, *, lost: bool = False) -> None:
        task_id, epoch, target = move.task_id, move.epoch, move.target
        if target == AWAY:
            self.fenced[task_id, epoch] = self.model.now_ms
            return
        memory, place = self.model.remembered(target, task_id), self.model.at(target, task_id)
        answer = self.run(self.stores[target].refuse_import(task_id, epoch))
        here = place.epoch if place else self.model.purged.get((target, task_id), -1)
        if memory.came >= epoch or here >= epoch:
            assert answer == "imported"
            self.has_it.update([(task_id, epoch)] if not lost else [])
            return
        assert answer == "fenced"
        memory.refused = max(memory.refused, epoch)
        if not lost:
            self.fenced[task_id, epoch] = self.model.now_ms

    @precondition(lambda self: self.moves)
    @rule(pick=picks)
    def ack_export(self, pick: int) -> None:
        self.ack_now(picked(self.moves, pick))

    def ack_now(self, move: Move) -> None:
        if (move.task_id, move.epoch) not in self.has_it:
            return
        place = self.model.at(move.source, move.task_id)
        expected = (
            place is not None
            and (place.epoch, place.target) == (move.epoch, move.target)
            and place.state in {State.MOVING, None}
        )
        source = self.stores[move.source]
        answer = self.run(source.ack_export(move.task_id, move.epoch, move.target, keep_ms=DAY_MS))
        assert answer is expected
        if answer and place is not None:
            place.state = None
            self.let_go.add((move.task_id, move.epoch))

    @precondition(lambda self: self.moves)
    @rule(pick=picks, later=st.booleans())
    def abort_export(self, pick: int, later: bool) -> None:
        self.abort_now(picked(self.moves, pick), later=later)

    def abort_now(self, move: Move, *, later: bool) -> None:
        if (move.task_id, move.epoch) not in self.fenced:
            return
        place = self.model.at(move.source, move.task_id)
        moving = (State.MOVING, move.epoch, move.target)
        expected = place is not None and (place.state, place.epoch, place.target) == moving
        answer = self.run(
            self.stores[move.source].abort_export(
                move.task_id,
                move.epoch,
                move.target,
                reason="r",
                retry_after_ms=0 if later else None,
            )
        )
        assert (answer is not None) is expected
        if expected and place is not None:
            assert answer is place.former
            place.state, place.target = place.former, ""
            dead = place.state is State.DEAD_LETTER
            place.settled = dead and (place.rests or not later)

    @precondition(lambda self: self.moves)
    @rule(pick=picks)
    def settle_import(self, pick: int) -> None:
        self.settle_import_now(picked(self.moves, pick))

    def settle_import_now(self, move: Move) -> None:
        if (move.task_id, move.epoch) in self.let_go:
            memory = self.model.remembered(move.target, move.task_id)
            store = self.stores[move.target]
            answer = self.run(store.settle_import(move.task_id, move.epoch))
            assert answer is (memory.came == move.epoch)

    @precondition(lambda self: self.moves)
    @rule(pick=picks, steps=st.sampled_from([2, 3, 4, 5]))
    def carry(self, pick: int, steps: int) -> None:
        """A courier that stops half-way, or does not."""
        self.carry_through(picked(self.moves, pick), steps)

    def carry_through(self, move: Move, steps: int = 5) -> None:
        line: list[Callable[[Move], None]] = [
            self.import_now,
            self.ack_now,
            self.settle_import_now,
            self.refuse_now,
            lambda refused: self.abort_now(refused, later=False),
        ]
        for step in line[:steps]:
            step(move)

    @precondition(lambda self: self.moves)
    @rule(later=st.booleans())
    def late_couriers(self, later: bool) -> None:
        """All that was read of moves is acted on once more."""
        for move in self.moves[-4:]:
            self.import_now(move)
            self.refuse_now(move)
            self.ack_now(move)
            self.abort_now(move, later=later)
            self.settle_import_now(move)

    @precondition(lambda self: self.with_ready())
    @rule(pick=picks, refused=st.booleans())
    def end_unheard(self, pick: int, refused: bool) -> None:
        """Arrived, ended and forgotten before the source has heard that it arrived."""
        region = picked(self.with_ready(), pick)
        for move in self.leave_dead(region):
            self.import_now(move, lost=True)
        for claim in self.claim_now(other(region), 10, 10, lease_ms=LEASE_MS):
            self.settle_now(claim, "finish")
        self.advance(90_000_000)
        self.look_at(region)
        for late in self.moves:
            if refused:
                self.refuse_now(late)
            self.import_now(late)

    @precondition(lambda self: self.with_ready())
    @rule(pick=picks)
    def try_again(self, pick: int) -> None:
        """Refused, taken back, begun anew: and then the courier of the first try wakes up."""
        region = picked(self.with_ready(), pick)
        for old in self.leave_dead(region):
            self.refuse_now(old)
            self.abort_now(old, later=True)
            record = self.run(self.stores[region].read(old.task_id))
            self.export(replace(record, epoch=record.epoch - 1), old.target, lost=False)
            self.export(record, old.target, lost=False)
            self.abort_now(old, later=False)
            new = self.moves[-1]
            self.refuse_now(new)
            self.refuse_now(old)
            self.import_now(new)

    @precondition(lambda self: self.with_ready())
    @rule(
        pick=picks,
        there=st.sampled_from([1, 2, 3]),
        after=st.sampled_from([0, 0, 660_000, 90_000_000]),
    )
    def go_there_and_back(self, pick: int, there: int, after: int) -> None:
        """Tasks die here, move, die there and come back; perhaps before their way is settled."""
        region = picked(self.with_ready(), pick)
        if after and there == 3:
            self.advance(after)
        first = self.leave_dead(region)
        for move in first:
            self.late_import(move)
            self.carry_through(move, there)
        for move in self.leave_dead(other(region)):
            self.import_now(move)
        for move in self.leave_dead(region):
            self.refuse_now(move)
        for move in first:
            self.settle_import_now(move)

    @precondition(lambda self: self.waiting())
    @rule(
        pick=picks,
        away=st.sampled_from([True, False, False, False]),
        steps=st.sampled_from(range(6)),
    )
    def leave_waiting(self, pick: int, away: bool, steps: int) -> None:
        """What waits begins its way, and comes as far as its courier does."""
        region, task_id = picked(self.waiting(), pick)
        record = self.run(self.stores[region].read(task_id))
        self.records.append(record)
        number = len(self.moves)
        self.export(record, AWAY if away else other(region), lost=False)
        for move in self.moves[number:]:
            self.carry_through(move, steps)

    @precondition(lambda self: self.waiting())
    @rule(pick=picks, by_ms=st.sampled_from([0, 26_000, 61_000]), later=st.booleans())
    def come_back_waiting(self, pick: int, by_ms: int, later: bool) -> None:
        """What waits begins its way, is refused some time later and waits here again."""
        region, task_id = picked(self.waiting(), pick)
        number = len(self.moves)
        self.export(self.run(self.stores[region].read(task_id)), other(region), lost=False)
        if by_ms:
            self.advance(by_ms)
        for move in self.moves[number:]:
            self.refuse_now(move)
            self.abort_now(move, later=later)

    def waiting(self) -> list[tuple[str, str]]:
        """Tasks that wait, the rare ones last."""
        items = self.model.places.items()
        states = (State.PENDING, State.SCHEDULED, State.FAILED)
        return [where for state in states for where, p in items if p.state is state]

    def leave_dead(self, region: str) -> list[Move]:
        """What is ready dies, and begins its way to the other region."""
        number = len(self.moves)
        claims = self.claim_now(region, 10, 10, lease_ms=LEASE_MS)
        self.claims += claims
        for claim in claims:
            self.settle_now(claim, "bury")
            self.records.append(self.run(self.stores[region].read(claim.task_id)))
            self.export(self.records[-1], other(region), lost=False)
        return self.moves[number:]

    @precondition(lambda self: self.records)
    @rule(pick=picks)
    def keep_for_good(self, pick: int) -> None:
        record = picked(self.records, pick)
        place = self.model.at(record.region, record.task_id)
        fresh = dead_at(place, record.epoch)
        expected = fresh and place is not None and not place.settled
        if place is not None and record.state in WAITING:
            expected = (place.state, place.epoch) == (record.state, record.epoch)
        answer = self.run(self.stores[record.region].keep(record, reason="r", retry_after_ms=None))
        assert answer is expected
        if place is not None and record.state not in WAITING:
            place.settled = place.settled or fresh
            self.export(record, other(record.region), lost=False)  # too late, if that settled it
