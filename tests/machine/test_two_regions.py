"""Two real regions against a plain model: everything workers and couriers may do, in any order.

Calls are repeated, replies lost, claims shown long after they were superseded. A courier keeps
its two promises: it lets go only of what the target has, and restores only what the target fenced.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.conftest import fleet_on
from tests.machine.model import AWAY, REGIONS, RUNNABLE, Model, Place
from tests.redis_keys import connected, flush, leaked_keys, wrong_counts
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
    let_expire,
)
from tradewind.local.scratch import RedisProcess
from tradewind.state import Mark, State
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Cancel,
    Cancelled,
    CancelRequested,
    Claim,
    Exported,
    Finish,
    LedgerHit,
    Pointer,
    Progress,
    Record,
    Release,
    RetryAt,
    Settled,
    Settlement,
    Stored,
    TooLateToCancel,
)

MAX_CRASHES, MAX_TASKS = 2, 5
LONG_MS = 600_000
AHEAD = 9_000_000_000_000_000  # a token of the year 2255, in microseconds
regions = st.sampled_from(REGIONS)
lost = st.sampled_from([False, False, True])  # the call is made, its reply never arrives
picks = st.integers(0, 9)
leases = st.sampled_from([0, LONG_MS])

SETTLED_AS = {
    "finish": State.COMPLETED,
    "retry": State.FAILED,
    "bury": State.DEAD_LETTER,
    "release": State.PENDING,
    "confirm_cancel": State.CANCELLED,
}
# A task whose cancel was asked for ends CANCELLED by these; by "retry" an expired one EXPIRED.
MAY_END = {"retry", "bury", "release"}
LIVE = {State.PENDING, State.PROCESSING, State.FAILED, State.DEAD_LETTER, State.MOVING}


Thing = TypeVar("Thing")


def picked(things: Sequence[Thing], pick: int) -> Thing:
    """One of the things, mostly a late one."""
    return things[-1 - pick % len(things)]


def other(region: str) -> str:
    return REGIONS[1 - REGIONS.index(region)]


def dead_at(place: Place | None, epoch: int) -> bool:
    return place is not None and (place.state, place.epoch) == (State.DEAD_LETTER, epoch)


class TwoRegions(RuleBasedStateMachine):
    """One partition in two regions."""

    servers: ClassVar[list[RedisProcess]]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        fleet = fleet_on(self.servers)
        for server in self.servers:
            flush(server.port)
        self.stores = {name: RegionStore(fleet.regions[name], fleet) for name in REGIONS}
        self.raw = {
            name: connected(server.port)
            for name, server in zip(REGIONS, self.servers, strict=False)
        }
        self.model = Model()
        # What somebody holds in hand, however old.
        self.claims: list[Claim] = []
        self.records: list[Record] = []
        self.exports: list[tuple[str, Exported]] = []  # with their source
        self.has_it: set[tuple[str, int]] = set()  # the target said: imported, or known
        self.fenced: set[tuple[str, int]] = set()  # the target said: never
        self.let_go: set[tuple[str, int]] = set()

    def run(self, call: Any) -> Any:
        return self.runner.run(call)

    def teardown(self) -> None:
        for store in self.stores.values():
            self.run(store.close())
        self.runner.close()

    # --- submits

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

    # --- workers

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

    @precondition(lambda self: self.with_ready())
    @rule(pick=picks, limit=st.integers(1, 3), leave=st.booleans())
    def die(self, pick: int, limit: int, leave: bool) -> None:
        """Claims and their burials at once: moves begin with dead tasks."""
        region = picked(self.with_ready(), pick)
        claims = self.claim_now(region, limit, LONG_MS)
        for claim in claims:
            self.settle_now(claim, "bury")
            self.records.append(self.run(self.stores[region].read(claim.task_id)))
            if leave:
                self.export(self.records[-1], other(region), lost=False)
        self.claims += claims

    # --- clients and operators

    @precondition(lambda self: self.model.places)
    @rule(pick=picks, lost=lost)
    def cancel(self, pick: int, lost: bool) -> None:
        (region, task_id), place = picked(list(self.model.places.items()), pick)
        answers = [
            self.run(self.stores[region].cancel(task_id, retention_ms=DAY_MS))
            for _ in range(1 + lost)
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

    @precondition(lambda self: self.model.ledger)
    @rule(pick=picks, other=st.booleans())
    def forget(self, pick: int, other: bool) -> None:
        """The router does so for a cancelled task, late or twice; others' entries stay."""
        (region, key), first = picked(list(self.model.ledger.items()), pick)
        place = self.model.at(region, first)
        ended = place is not None and place.state is State.CANCELLED
        task_id = first if ended and not other else an_id()
        mark = a_mark(key, business=False)
        answer = self.run(self.stores[region].forget(mark, task_id))
        assert answer is (task_id == first)
        if answer:
            del self.model.ledger[region, key]

    @precondition(lambda self: self.records)
    @rule(pick=picks, lost=lost)
    def redrive(self, pick: int, lost: bool) -> None:
        record = picked(self.records, pick)
        place = self.model.at(record.region, record.task_id)
        answer = self.run(self.stores[record.region].redrive(record.task_id, record.epoch))
        assert answer is dead_at(place, record.epoch)
        if answer and place is not None:
            place.state, place.crashes, place.settled = State.PENDING, 0, False
            if lost:
                repeat = self.stores[record.region].redrive(record.task_id, record.epoch)
                assert not self.run(repeat)

    @precondition(lambda self: self.records)
    @rule(pick=picks, really=st.sampled_from([False, False, True]))
    def purge(self, pick: int, really: bool) -> None:
        record = picked(self.records, pick)
        place = self.model.at(record.region, record.task_id)
        epoch = record.epoch if really else 0
        answer = self.run(self.stores[record.region].purge(record.task_id, epoch))
        assert answer is dead_at(place, epoch)
        if answer:
            del self.model.places[record.region, record.task_id]
            self.model.purged.add(record.task_id)

    @precondition(lambda self: self.perishable())
    @rule(pick=picks)
    def time_passes(self, pick: int) -> None:
        (region, task_id), place = picked(self.perishable(), pick)
        let_expire(self.raw[region], task_id)
        place.over = True

    def perishable(self) -> list[tuple[tuple[str, str], Place]]:
        """Tasks that could expire from now on."""
        return [
            (where, place)
            for where, place in self.model.places.items()
            if place.expires and not place.over and place.state in LIVE
        ]

    # --- couriers

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

    # --- what must hold after every step

    @invariant()
    def the_regions_hold_what_the_model_holds(self) -> None:
        for region, raw in self.raw.items():
            prefix = keys_at().task("")
            found = {
                key.removeprefix(prefix): raw.hmget(key, "st", "ep", "tk", "mt")
                for key in raw.scan_iter(match=f"{prefix}*", count=1000)
            }
            expected = {
                task_id: place
                for (where, task_id), place in self.model.places.items()
                if where == region
            }
            assert found.keys() == expected.keys()
            for task_id, (state, epoch, token, target) in found.items():
                place = expected[task_id]
                assert state == (place.state or Mark.FORWARDED)
                assert (int(epoch), target or "") == (place.epoch, place.target)
                assert place.state is None or int(token or 0) == place.token

    @invariant()
    def every_accepted_task_is_somewhere_and_runnable_in_one_region_at_most(self) -> None:
        for task_id in self.model.birth:
            places = [self.model.at(region, task_id) for region in REGIONS]
            live = [place for place in places if place is not None and place.state is not None]
            assert live or task_id in self.model.purged
            assert sum(place.state in RUNNABLE for place in live) <= 1
            if len(live) > 1:  # the same move, seen from both ends
                assert sum(place.state is State.MOVING for place in live) >= 1

    @invariant()
    def a_task_has_one_result_at_most(self) -> None:
        assert all(count == 1 for count in self.model.results.values())

    @invariant()
    def counts_are_exact_and_no_key_is_left_behind(self) -> None:
        for server in self.servers[:2]:
            assert wrong_counts(server.port) == {}
            # A hint is out for what only holds stale tickets: whoever takes it drops them.
            stale = {keys_at().ready("mail", 1)} if self._is_hinted(server) else set[str]()
            assert set(leaked_keys(server.port)) <= stale

    def _is_hinted(self, server: RedisProcess) -> bool:
        return bool(connected(server.port).exists(keys_at().wake("mail")))

    @invariant()
    def what_waits_and_may_expire_is_indexed_and_nothing_else(self) -> None:
        for region, raw in self.raw.items():
            waiting = {
                task_id
                for (where, task_id), place in self.model.places.items()
                if where == region
                and place.expires
                and place.state in {State.PENDING, State.FAILED}
            }
            assert set(raw.zrange(keys_at().expiry, 0, -1)) == waiting


@pytest.mark.timeout(600)  # a failure is shrunk before it is shown
def test_two_regions_behave_as_the_model_does(redis_servers: list[RedisProcess]) -> None:
    TwoRegions.servers = redis_servers
    run_state_machine_as_test(
        TwoRegions,
        settings=settings(
            max_examples=80,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=(HealthCheck.too_slow,),
        ),
    )
