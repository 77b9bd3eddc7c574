"""The whole machine: every rule, and what must hold after every step and at the end of all."""

import sys

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from tests.machine.couriers import Couriers
from tests.machine.dump import Dump
from tests.machine.judge import BrokenInvariant
from tests.machine.model import REGIONS, WAITING
from tests.machine.tidy import left_behind, wrong_counts
from tests.machine.world import LEASE_MS, other, picked, picks
from tests.scripts.world import DAY_MS, PLACE
from tradewind.state import Mark, State


class TwoRegions(Couriers):
    """Everything that may be done to a task, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self._looked_at: dict[str, Dump] = {}

    @precondition(lambda self: self.with_ready())
    @rule(pick=picks, steps=st.sampled_from(range(6)))
    def lay_to_rest(self, pick: int, steps: int) -> None:
        """What is ready dies for good, and is carried away as it is, as far as it comes."""
        region, number = picked(self.with_ready(), pick), len(self.moves)
        for claim in self.claim_now(region, 3, 3, lease_ms=LEASE_MS):
            self.settle_now(claim, "bury")
            store, place = self.stores[region], self.model.at(region, claim.task_id)
            record = self.run(store.read(claim.task_id))
            if place is None or place.state is not State.DEAD_LETTER:
                continue
            assert self.run(store.keep(record, reason="r", retry_after_ms=None))
            place.settled = True
            self.export(record, other(region), lost=False, rests=True)
        for move in self.moves[number:]:
            self.carry_through(move, steps)

    @invariant()
    def everything_holds(self) -> None:
        """Of regions that may have changed."""
        type(self).steps += 1
        for region, seen in self.judge.seen.items():
            if self._looked_at.get(region) is not seen:
                self.counts_are_exact_and_no_key_is_left_behind(seen)
                self.the_region_holds_what_the_model_holds(region, seen)
                self.every_index_holds_what_its_states_say_and_nothing_else(region, seen)
                self._looked_at[region] = seen

    def the_region_holds_what_the_model_holds(self, region: str, seen: Dump) -> None:
        held = self.model.held(region)
        tombs = {id_: ep for (where, id_), ep in self.model.tombs.items() if where == region}
        purged = {id_: ep for (where, id_), ep in self.model.purged.items() if where == region}
        found = seen.records
        assert found.keys() == held.keys() | tombs.keys() | purged.keys()
        for task_id, fields in found.items():
            if task_id in tombs:
                assert (fields["s"], fields["ep"]) == (Mark.REFUSED, str(tombs[task_id]))
                continue
            if task_id in purged:
                assert (fields["s"], fields["ep"]) == (Mark.PURGED, str(purged[task_id]))
                continue
            place = held[task_id]
            assert fields["s"] == (place.state or Mark.FORWARDED)
            assert (int(fields["ep"]), fields.get("mt", "")) == (place.epoch, place.target)
            assert place.state is None or int(fields.get("tk", 0)) == place.token

    def counts_are_exact_and_no_key_is_left_behind(self, seen: Dump) -> None:
        if wrong := wrong_counts(seen):
            raise BrokenInvariant(1, f"counts: {wrong}")
        if left := left_behind(seen):
            raise BrokenInvariant(8, f"without owner or TTL: {left}")

    def every_index_holds_what_its_states_say_and_nothing_else(
        self, region: str, seen: Dump
    ) -> None:
        held = self.model.held(region)

        def ids(*states: State) -> set[str]:
            return {task_id for task_id, place in held.items() if place.state in states}

        dead, waiting = ids(State.DEAD_LETTER), ids(*WAITING)
        expected = {
            "leases": ids(State.PROCESSING),
            "due:1": ids(State.FAILED, State.SCHEDULED),
            "dead": dead,
            "dead_until": dead,
            "outbox": {task_id for task_id in dead if not held[task_id].settled},
            "moving": ids(State.MOVING),
            "expiry": {task_id for task_id in waiting if held[task_id].expires_ms},
        }
        for index, members in expected.items():
            assert {member for member, _ in seen.keys.get(index, ())} == members

    def teardown(self) -> None:
        """Only a run that went well has an end worth a look."""
        try:
            if sys.exc_info()[0] is None:
                self.everything_ends()
        finally:
            super().teardown()

    def everything_ends(self) -> None:
        """Moves are carried through, all is cancelled, all retention passes: nothing is left."""
        self.end_moves()
        for (region, task_id), place in list(self.model.places.items()):
            if place.state is not None:
                self.cancel_now((region, task_id), place)
        for _ in range(2):  # what ends in the first round is gone in the second
            self.advance(40 * DAY_MS)
            for region in REGIONS:
                self.reap_now(region)
                self.claim_now(region, 10, 10, lease_ms=0)
                self.sweep_now(region)
        self.advance(40 * DAY_MS)
        for region, seen in self.judge.seen.items():
            if seen.keys not in ({}, {"counts": {"P": "0"}}):
                raise BrokenInvariant(8, f"left in {region} after all retention: {seen.keys}")

    def end_moves(self) -> None:
        for _ in range(2):  # one that had come back before its departure was acknowledged
            for region in REGIONS:
                self.look_at(region)
            for move in list(self.moves):
                self.carry_through(move)
        for store in self.stores.values():
            for task_id, epoch in self.run(store.unsettled(PLACE, older_than_ms=-1_000)):
                assert self.run(store.settle_import(task_id, epoch))
