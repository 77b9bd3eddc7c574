"""Submits, and what workers may do with what they hold, however old."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    precondition,
    rule,
)

from tests.machine.model import REGIONS, WAITING, Entry, Place
from tests.machine.submitters import Submitters
from tests.machine.world import (
    AHEAD,
    DEAD_MS,
    DELAY_MS,
    EXPIRY_MS,
    LEASE_MS,
    MAX_CRASHES,
    MAX_TASKS,
    RETRY_MS,
    leases,
    lost,
    picked,
    picks,
    regions,
)
from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    PLACE,
    a_bury,
    a_mark,
    a_task,
    an_id,
    keys_at,
)
from tradewind.state import State
from tradewind.store.letters import word
from tradewind.task import (
    Cancel,
    Claim,
    Crash,
    Finish,
    Progress,
    Release,
    RetryAt,
    Settled,
    Settlement,
    Stored,
    Tombstoned,
)

SETTLED_AS = {
    "finish": State.COMPLETED,
    "retry": State.FAILED,
    "bury": State.DEAD_LETTER,
    "release": State.PENDING,
    "confirm_cancel": State.CANCELLED,
    "crashed": State.PENDING,
}
REPORTS = ("renew", "progress", *sorted(SETTLED_AS))
# A task whose cancel was asked for ends CANCELLED by these; by "retry" an expired one EXPIRED.
MAY_END = {"retry", "bury", "release", "crashed"}


class Workers(Submitters):
    """Claims, renewals, settlements, and leases that end."""

    @precondition(lambda self: self.model.alive() < MAX_TASKS)
    @rule(
        region=regions,
        key=st.sampled_from([b"", b"a" * 32, b"b" * 32, b"c" * 32]),
        done=st.sampled_from([b"", b"f" * 32]),
        token=st.sampled_from([0, 0, AHEAD]),
        expires=st.booleans(),
        delay_ms=st.sampled_from([0, 0, DELAY_MS]),
    )
    def enqueue(
        self, region: str, key: bytes, done: bytes, token: int, expires: bool, delay_ms: int
    ) -> None:
        self.enqueue_now(region, key, done, token=token, expires=expires, delay_ms=delay_ms)

    def enqueue_now(
        self,
        region: str,
        key: bytes = b"",
        done: bytes = b"",
        *,
        token: int = 0,
        expires: bool = False,
        delay_ms: int = 0,
    ) -> None:
        now_ms = self.model.now_ms
        task = a_task(
            an_id(),
            max_crashes=MAX_CRASHES,
            done_key=done,
            mark=a_mark(key, business=False) if key else None,
            expires_ms=now_ms + EXPIRY_MS if expires else 0,
            delay_ms=delay_ms,
        )
        ((outcome,), _) = self.run(self.stores[region].enqueue([task], timeout_s=5))
        first = self.model.ledger.get((region, key)) if key else None
        if first is not None:
            self.is_told_of(first, outcome)
            return
        state = State.SCHEDULED if delay_ms else State.PENDING
        assert outcome == Stored(task.task_id, state, created=True)
        self.model.places[region, task.task_id] = Place(
            state, 1, token=token, expires_ms=task.expires_ms, due_ms=now_ms + delay_ms
        )
        if token:  # given out by a clock that has since been set back
            self.raw[region].hset(keys_at().task(task.task_id), "tk", token)
            self.judge.look()
            self.model.last_token[task.task_id] = token
        if key:
            self.model.ledger[region, key] = Entry(task.task_id, region, 1, confirmed=True)
        if done:
            # The store reckons the end of the window from what it last heard of the clock.
            _, _, until = self.raw[region].hget(keys_at().task(task.task_id), "dd").partition(":")
            self.model.done_keys[task.task_id] = (done, int(until))

    @precondition(lambda self: self.model.places)
    @rule(pick=picks, epoch=st.sampled_from(range(5)), again=st.booleans())
    def what_is_there_is_known(self, pick: int, epoch: int, again: bool) -> None:
        (region, task_id), place = picked(list(self.model.places.items()), pick)
        if again:
            task = a_task(task_id, epoch=max(1, epoch))
            ((answer,), _) = self.run(self.stores[region].enqueue([task], timeout_s=5))
        else:
            answer = self.run(self.stores[region].refuse(task_id, epoch))
        assert answer == Stored(task_id, place.state or State.MOVING, created=False)

    @precondition(lambda self: self.model.tombs)
    @rule(pick=picks)
    def what_was_refused_is_not_stored(self, pick: int) -> None:
        (region, task_id), epoch = picked(list(self.model.tombs.items()), pick)
        task = a_task(task_id, epoch=epoch)
        ((answer,), _) = self.run(self.stores[region].enqueue([task], timeout_s=5))
        assert answer == Tombstoned(task_id)

    @precondition(lambda self: self.with_ready())
    @rule(
        pick=picks,
        limits=st.sampled_from([(1, 0), (2, 1), (10, 10), (0, 2)]),
        lease_ms=leases,
        patience=st.sampled_from([None, {"mail": 0}]),
        lost=lost,
    )
    def claim(
        self,
        pick: int,
        limits: tuple[int, int],
        lease_ms: int,
        patience: dict[str, int] | None,
        lost: bool,
    ) -> None:
        region = picked(self.with_ready(), pick)
        claims = self.claim_now(region, *limits, lease_ms=lease_ms, patience=patience)
        if not lost:
            self.claims += claims

    def with_ready(self) -> list[str]:
        """Regions where a claim finds something."""
        return [region for region in REGIONS if self.model.ready(region)]

    def claim_now(
        self,
        region: str,
        limit: int,
        suspects: int,
        *,
        lease_ms: int,
        patience: dict[str, int] | None = None,
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
                suspects=suspects,
                starvation_ms=patience,
            )
        )
        odd = {t for t in set(ready) - ending if self.model.places[region, t].crashes}
        number = min(suspects, len(odd)) + min(limit, len(ready) - len(ending) - len(odd))
        assert len(batch.claims) == number
        for claim in batch.claims:
            assert claim.task_id in ready
            assert claim.task_id not in ending
            place = self.model.places[region, claim.task_id]
            assert claim.token > self.model.last_token.get(claim.task_id, 0)
            assert claim.suspect is (place.crashes > 0)
            place.crashes, place.booked = place.crashes + claim.suspect, claim.suspect
            assert (claim.epoch, claim.crashes) == (place.epoch, place.crashes)
            self.model.last_token[claim.task_id] = place.token = claim.token
            place.state = State.PROCESSING
            place.lease_until_ms = self.model.now_ms + lease_ms
        for task_id in set(ready) - {claim.task_id for claim in batch.claims}:
            place = self.model.places[region, task_id]
            state = word(self.raw[region].hget(keys_at().task(task_id), "s").encode())
            if state == State.EXPIRED:
                assert place.over(self.model.now_ms)
                place.state = State.EXPIRED
            elif state == State.COMPLETED:
                assert task_id in ending
                assert not place.over(self.model.now_ms)
                self.model.complete(region, task_id)
            else:
                place.state = State.PENDING  # every claim promotes what is due
                assert state == place.state
        return batch.claims

    @precondition(lambda self: self.with_ready())
    @rule(
        pick=picks,
        kind=st.sampled_from(sorted(SETTLED_AS)),
        retry_ms=st.sampled_from([0, RETRY_MS]),
    )
    def work(self, pick: int, kind: str, retry_ms: int) -> None:
        """Claims and what becomes of them, told at once; then told in every other way, too."""
        claims = self.claim_now(picked(self.with_ready(), pick), 3, 3, lease_ms=LEASE_MS)
        for claim in claims:
            self.settle_now(claim, kind, retry_ms)
            for other in REPORTS:
                self.report(claim, other)
        self.claims += claims

    @precondition(lambda self: self.with_ready())
    @rule(
        pick=picks,
        how=st.sampled_from(["reap", "release", "retry", "crashed"]),
    )
    def change_hands(self, pick: int, how: str) -> None:
        """Claimed, lost or given back, claimed again: and then the first holder reports."""
        region = picked(self.with_ready(), pick)
        first = self.claim_now(region, 3, 3, lease_ms=0)
        for claim in first if how != "reap" else ():
            self.settle_now(claim, how)
        if how == "reap":
            self.reap_now(region)
        second = self.claim_now(region, 3, 3, lease_ms=LEASE_MS)
        for claim in first:
            for late in REPORTS:
                self.report(claim, late)
        self.claims += [*first, *second]

    def report(self, claim: Claim, kind: str) -> None:
        """Whatever a holder may say."""
        if kind == "renew":
            self.renew_now(claim)
        elif kind == "progress":
            self.progress_now(claim)
        else:
            self.settle_now(claim, kind)

    @precondition(lambda self: self.claims)
    @rule(pick=picks, kind=st.sampled_from(sorted(SETTLED_AS)), later=st.booleans())
    def settle(self, pick: int, kind: str, later: bool) -> None:
        self.settle_now(picked(self.claims, pick), kind, RETRY_MS if later else 0)

    def settle_now(self, claim: Claim, kind: str, retry_ms: int = 0) -> None:
        place = self.model.at(claim.region, claim.task_id)
        (answer,) = self.run(self._settle(claim, kind, retry_ms))
        mine = place is not None and place.holds(claim)
        end = self._end(place, kind) if place is not None else SETTLED_AS[kind]
        if place is not None and mine and place.state is State.PROCESSING and kind != "crashed":
            place.crashes, place.booked = place.crashes - place.booked, False
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
        elif kind == "crashed" and end is not State.CANCELLED:
            self.crash(place, DEAD_MS)
            return
        else:
            place.state = end
        place.crashed = False
        place.due_ms = self.model.now_ms + retry_ms
        place.dead_until_ms = self.model.now_ms + DEAD_MS
        place.settled = False

    def _end(self, place: Place, kind: str) -> State:
        """The state in which the task is after a settlement that counts, now or before."""
        ends = {State.CANCELLED, State.EXPIRED}
        if kind in MAY_END and place.state is not None and place.state in ends:
            return place.state
        if kind in MAY_END and place.asked:
            return State.CANCELLED
        if kind == "crashed":
            last = place.crashes + (not place.booked) >= MAX_CRASHES
            dies = last if place.state is State.PROCESSING else place.crashed
            return State.DEAD_LETTER if dies else State.PENDING
        return self.expired_or(place, SETTLED_AS[kind]) if kind == "retry" else SETTLED_AS[kind]

    def crash(self, place: Place, retention_ms: int) -> None:
        """A run that ended without a report."""
        place.crashes += not place.booked
        place.booked, place.state = False, State.PENDING
        if place.crashes >= MAX_CRASHES:  # "crashed" is not in failover.on: settled
            place.state, place.settled, place.crashed = State.DEAD_LETTER, True, True
            place.dead_until_ms = self.model.now_ms + retention_ms

    def expired_or(self, place: Place, state: State) -> State:
        """Where an attempt would have been put that may not start any more."""
        first_time = place.state is State.PROCESSING
        return State.EXPIRED if first_time and place.over(self.model.now_ms) else state

    def _settle(self, claim: Claim, kind: str, retry_ms: int) -> Any:
        store = self.stores[claim.region]
        items: dict[str, Settlement] = {
            "finish": Finish(claim, b"r", "", DAY_MS),
            "retry": RetryAt(claim, retry_ms, FAILURE),
            "bury": a_bury(claim, retention_ms=DEAD_MS),
            "release": Release(claim),
            "confirm_cancel": Cancel(claim, DAY_MS),
            "crashed": Crash(claim, "gone", DEAD_MS, may_move=False),
        }
        return getattr(store, kind)([items[kind]])

    @precondition(lambda self: self.claims)
    @rule(pick=picks)
    def renew(self, pick: int) -> None:
        self.renew_now(picked(self.claims, pick))

    def renew_now(self, claim: Claim) -> None:
        place = self.model.at(claim.region, claim.task_id)
        (answer,) = self.run(self.stores[claim.region].renew([claim], {"mail": LEASE_MS}))
        held = place is not None and place.holds(claim) and place.state is State.PROCESSING
        assert answer.lost is not held
        if held and place is not None:
            assert answer.cancel_requested is place.asked
            place.lease_until_ms = self.model.now_ms + LEASE_MS

    @precondition(lambda self: self.claims)
    @rule(pick=picks)
    def progress(self, pick: int) -> None:
        self.progress_now(picked(self.claims, pick))

    def progress_now(self, claim: Claim) -> None:
        place = self.model.at(claim.region, claim.task_id)
        (answer,) = self.run(self.stores[claim.region].progress([Progress(claim, 0.5, "half")]))
        held = place is not None and place.holds(claim) and place.state is State.PROCESSING
        assert answer.lost is not held

    @precondition(lambda self: any(p.state is State.PROCESSING for p in self.model.places.values()))
    @rule(region=regions)
    def reap(self, region: str) -> None:
        self.reap_now(region)

    def reap_now(self, region: str) -> None:
        now_ms = self.model.now_ms
        over = {
            task_id
            for task_id, place in self.model.held(region).items()
            if place.state is State.PROCESSING and place.lease_until_ms <= now_ms
        }
        reaped = self.run(self.stores[region].reap(PLACE, limit=64))
        assert {answer.task_id for answer in reaped} == over
        for answer in reaped:
            place = self.model.places[region, answer.task_id]
            if place.asked:
                place.state = State.CANCELLED
                assert answer.state is place.state
                continue
            self.crash(place, 14 * DAY_MS)  # the fleet's default
            assert answer.state is place.state

    @precondition(lambda self: self.model.places)
    @rule(region=regions)
    def sweep(self, region: str) -> None:
        self.sweep_now(region)

    def sweep_now(self, region: str) -> None:
        self.run(self.stores[region].sweep(PLACE, worker_id="w", queues=["mail"], courier=True))
        for task_id, place in self.model.held(region).items():
            if place.state in WAITING and place.over(self.model.now_ms):
                place.state = State.EXPIRED
            elif self.model.is_ready(place):
                place.state = State.PENDING
            elif place.state is State.DEAD_LETTER and place.dead_until_ms <= self.model.now_ms:
                del self.model.places[region, task_id]
