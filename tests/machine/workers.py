"""Submits, and what workers may do with what they hold, however old."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    precondition,
    rule,
)

from tests.machine.model import REGIONS, Place
from tests.machine.world import (
    AHEAD,
    LONG_MS,
    MAX_CRASHES,
    MAX_TASKS,
    World,
    leases,
    lost,
    picked,
    picks,
    regions,
)
from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    LATER_MS,
    PLACE,
    a_bury,
    a_mark,
    a_task,
    an_id,
    keys_at,
)
from tradewind.state import State
from tradewind.task import (
    Cancel,
    Claim,
    Finish,
    LedgerHit,
    Progress,
    Release,
    RetryAt,
    Settled,
    Settlement,
    Stored,
)

SETTLED_AS = {
    "finish": State.COMPLETED,
    "retry": State.FAILED,
    "bury": State.DEAD_LETTER,
    "release": State.PENDING,
    "confirm_cancel": State.CANCELLED,
}
# A task whose cancel was asked for ends CANCELLED by these; by "retry" an expired one EXPIRED.
MAY_END = {"retry", "bury", "release"}


class Workers(World):
    """Claims, renewals, settlements, and leases that end."""

    @precondition(lambda self: len(self.model.birth) < MAX_TASKS)
    @rule(
        region=regions,
        key=st.sampled_from([b"", b"a" * 32, b"b" * 32]),
        done=st.sampled_from([b"", b"f" * 32]),
        token=st.sampled_from([0, AHEAD]),
        expires_ms=st.sampled_from([0, LATER_MS]),
    )
    def enqueue(self, region: str, key: bytes, done: bytes, token: int, expires_ms: int) -> None:
        mark = a_mark(key) if key else None
        task = a_task(
            an_id(), max_crashes=MAX_CRASHES, done_key=done, mark=mark, expires_ms=expires_ms
        )
        ((outcome,), _) = self.run(self.stores[region].enqueue([task], timeout_s=5))
        first = self.model.ledger.get((region, key)) if key else None
        if first is not None:
            assert isinstance(outcome, LedgerHit)
            assert (outcome.task_id, outcome.confirmed) == (first, True)
            return
        assert outcome == Stored(task.task_id, State.PENDING, created=True)
        self.model.places[region, task.task_id] = Place(
            State.PENDING, 1, token=token, expires=expires_ms > 0
        )
        if token:  # given out by a clock that has since been set back
            self.raw[region].hset(keys_at().task(task.task_id), "tk", token)
            self.model.last_token[task.task_id] = token
        self.model.birth[task.task_id] = region
        if key:
            self.model.ledger[region, key] = task.task_id
        if done:
            self.model.done_keys[task.task_id] = done

    @precondition(lambda self: self.model.places)
    @rule(pick=picks, epoch=st.integers(0, 4))
    def what_is_there_is_known(self, pick: int, epoch: int) -> None:
        (region, task_id), place = picked(list(self.model.places.items()), pick)
        if epoch:
            answer = self.run(self.stores[region].refuse(task_id, epoch))
        else:
            ((answer,), _) = self.run(self.stores[region].enqueue([a_task(task_id)], timeout_s=5))
        assert answer == Stored(task_id, place.state or State.MOVING, created=False)

    @precondition(lambda self: self.with_ready())
    @rule(
        pick=picks,
        limit=st.sampled_from([1, 2, 10]),
        lease_ms=leases,
        patience=st.sampled_from([None, {"mail": 0}]),
        lost=lost,
    )
    def claim(
        self, pick: int, limit: int, lease_ms: int, patience: dict[str, int] | None, lost: bool
    ) -> None:
        claims = self.claim_now(picked(self.with_ready(), pick), limit, lease_ms, patience)
        if not lost:
            self.claims += claims

    def with_ready(self) -> list[str]:
        """Regions where a claim finds something."""
        return [region for region in REGIONS if self.model.ready(region)]

    def claim_now(
        self, region: str, limit: int, lease_ms: int, patience: dict[str, int] | None = None
    ) -> Sequence[Claim]:
        ready = self.model.ready(region)
        ending = {task_id for task_id in ready if self.model.only_ends(region, task_id)}
        batch = self.run(
            self.stores[region].claim(
                PLACE,
                worker_id="w",
                lease_ms={"mail": lease_ms},
                handlers=["send"],
                limit=limit,
                starvation_ms=patience,
            )
        )
        assert len(batch.claims) == min(limit, len(ready) - len(ending))
        for claim in batch.claims:
            assert claim.task_id in ready
            assert claim.task_id not in ending
            place = self.model.places[region, claim.task_id]
            assert claim.token > self.model.last_token.get(claim.task_id, 0)
            assert (claim.epoch, claim.crashes) == (place.epoch, place.crashes)
            self.model.last_token[claim.task_id] = place.token = claim.token
            place.state, place.lease_over = State.PROCESSING, lease_ms == 0
        for task_id in set(ready) - {claim.task_id for claim in batch.claims}:
            place = self.model.places[region, task_id]
            state = self.raw[region].hget(keys_at().task(task_id), "st")
            if state == State.EXPIRED:
                assert place.over
                place.state = State.EXPIRED
            elif state == State.COMPLETED:
                assert task_id in ending
                assert not place.over
                self.model.complete(region, task_id)
            else:
                place.state = State.PENDING  # every claim promotes what is due
                assert state == place.state
        return batch.claims

    @precondition(lambda self: self.claims)
    @rule(pick=picks, kind=st.sampled_from(sorted(SETTLED_AS)))
    def settle(self, pick: int, kind: str) -> None:
        self.settle_now(picked(self.claims, pick), kind)

    def settle_now(self, claim: Claim, kind: str) -> None:
        place = self.model.at(claim.region, claim.task_id)
        (answer,) = self.run(self._settle(claim, kind))
        mine = place is not None and place.holds(claim)
        end = self._end(place, kind) if place is not None else SETTLED_AS[kind]
        if place is None or not mine or place.state not in {State.PROCESSING, end}:
            assert isinstance(answer, Settled)
            assert answer.lost
            return
        otherwise = "" if end is SETTLED_AS[kind] else end
        assert answer == Settled(claim.task_id, lost=False, state=otherwise)
        if place.state is not State.PROCESSING:
            return
        if end is State.COMPLETED:
            self.model.complete(claim.region, claim.task_id)
        else:
            place.state = end
        place.settled = False

    def _end(self, place: Place, kind: str) -> State:
        """The state in which the task is after a settlement that counts, now or before."""
        ends = {State.CANCELLED, State.EXPIRED}
        if kind in MAY_END and place.state is not None and place.state in ends:
            return place.state
        if kind in MAY_END and place.asked:
            return State.CANCELLED
        return State.EXPIRED if kind == "retry" and place.over else SETTLED_AS[kind]

    def _settle(self, claim: Claim, kind: str) -> Any:
        store = self.stores[claim.region]
        items: dict[str, Settlement] = {
            "finish": Finish(claim, b"r", "", DAY_MS),
            "retry": RetryAt(claim, 0, FAILURE),
            "bury": a_bury(claim),
            "release": Release(claim),
            "confirm_cancel": Cancel(claim, DAY_MS),
        }
        return getattr(store, kind)([items[kind]])

    @precondition(lambda self: self.claims)
    @rule(pick=picks)
    def renew(self, pick: int) -> None:
        claim = picked(self.claims, pick)
        place = self.model.at(claim.region, claim.task_id)
        (answer,) = self.run(self.stores[claim.region].renew([claim], {"mail": LONG_MS}))
        held = place is not None and place.holds(claim) and place.state is State.PROCESSING
        assert answer.lost is not held
        if held and place is not None:
            assert answer.cancel_requested is place.asked
            place.lease_over = False

    @precondition(lambda self: self.claims)
    @rule(pick=picks)
    def progress(self, pick: int) -> None:
        claim = picked(self.claims, pick)
        place = self.model.at(claim.region, claim.task_id)
        (answer,) = self.run(self.stores[claim.region].progress([Progress(claim, 0.5, "half")]))
        held = place is not None and place.holds(claim) and place.state is State.PROCESSING
        assert answer.lost is not held

    @precondition(lambda self: any(place.lease_over for place in self.model.places.values()))
    @rule(region=regions)
    def reap(self, region: str) -> None:
        self.reap_now(region)

    def reap_now(self, region: str) -> None:
        over = {
            task_id
            for (where, task_id), place in self.model.places.items()
            if where == region and place.state is State.PROCESSING and place.lease_over
        }
        reaped = self.run(self.stores[region].reap(PLACE, limit=64))
        assert {answer.task_id for answer in reaped} == over
        for answer in reaped:
            place = self.model.places[region, answer.task_id]
            place.lease_over = False
            if place.asked:
                place.state = State.CANCELLED
                assert answer.state is place.state
                continue
            place.crashes += 1
            place.state = State.PENDING
            if place.crashes >= MAX_CRASHES:  # "crashed" is not in failover.on: settled
                place.state, place.settled = State.DEAD_LETTER, True
            assert answer.state is place.state

    @precondition(
        lambda self: any(
            place.state is State.FAILED or place.over for place in self.model.places.values()
        )
    )
    @rule(region=regions)
    def sweep(self, region: str) -> None:
        self.run(self.stores[region].sweep(PLACE, worker_id="w", queues=["mail"], courier=True))
        for place in self._places(region):
            if place.state in {State.FAILED, State.PENDING}:
                place.state = State.EXPIRED if place.over else State.PENDING

    def _places(self, region: str) -> list[Place]:
        return [place for (where, _), place in self.model.places.items() if where == region]
