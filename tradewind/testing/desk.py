"""Takes submits as a router does: the same checks, the same identity, one region."""

import random
from collections.abc import Collection

from tradewind import codec, ids, wire
from tradewind.admission.identity import Identity, identify
from tradewind.client.specs import Args, TaskOptions, build_spec
from tradewind.client.views import Receipt, Route, receipt_of, route_of
from tradewind.clock import Clock
from tradewind.errors import IdempotencyKeyReused, InvalidTask, NoRegionPermitted, StoreError
from tradewind.fleet import Fleet
from tradewind.policy.decide import decide
from tradewind.policy.rules import Resolved, resolve
from tradewind.state import State
from tradewind.task import Draft, LedgerHit, LedgerMark, NewTask, Record, Stored
from tradewind.testing.memory import MemoryStore
from tradewind.v1 import router_pb2
from tradewind.v1.task_pb2 import TaskSpec
from tradewind.view import RegionView

BY_LEDGER = "ledger"  # what a router says of a duplicate


class Desk:
    """Stores what is submitted, or finds what an earlier submit stored."""

    def __init__(
        self, store: MemoryStore, fleet: Fleet, clock: Clock, handlers: Collection[str]
    ) -> None:
        """`fleet` has one partition; `handlers` are the names that the app runs."""
        self._store, self._fleet, self._clock, self._handlers = store, fleet, clock, handlers
        self._entropy = random.Random(0)  # ids are the same in every run of a test
        self._marks: dict[str, LedgerMark] = {}

    async def submit(self, name: str, args: Args, options: TaskOptions) -> Receipt:
        """Raises what Client.submit raises for the same task."""
        spec = self._spec(name, args, options)
        draft, resolved, identity = self._admitted(spec)
        task = self._task(draft, resolved, identity)
        (outcome,), _ = await self._store.enqueue([task], timeout_s=1.0)
        match outcome:
            case Stored():
                if identity.deduplicated and identity.mark is not None:
                    self._marks[task.task_id] = identity.mark
                rule = resolved.rule_name
                return self._receipt(task.task_id, outcome.state, duplicate=False, rule=rule)
            case LedgerHit():
                return await self._first(draft, outcome)
            case StoreError():
                raise outcome
            case _:
                raise AssertionError(outcome)

    def explain(self, name: str, args: Args, options: TaskOptions) -> Route:
        """Where such a task would go. Stores nothing."""
        draft, resolved, _ = self._admitted(self._spec(name, args, options))
        served = {draft.queue: frozenset(self._handlers)}
        view = RegionView(self._store.region, 0.0, slots=1, free_slots=1, served=served)
        choice = decide(draft, [view], self._fleet, draw=0.5, resolved=resolved)
        return route_of(wire.decision(choice, partition=0))

    async def free_key(self, task_id: str) -> None:
        """The task was cancelled: its idempotency key, or payload, is free again."""
        mark = self._marks.pop(task_id, None)
        if mark is not None:
            await self._store.forget(mark, task_id, ended=State.CANCELLED)

    def _spec(self, name: str, args: Args, options: TaskOptions) -> TaskSpec:
        spec = build_spec(name, args, options, self._clock)
        spec.origin_region = spec.origin_region or self._store.region
        spec.request_id = spec.request_id or f"test-{self._entropy.getrandbits(64):016x}"
        return spec

    def _admitted(self, spec: TaskSpec) -> tuple[Draft, Resolved, Identity]:
        draft, body = wire.admitted(spec, self._fleet, now_ms=self._clock.now_ms())
        resolved = resolve(draft, self._fleet)
        self._check_place(draft, resolved)
        return draft, resolved, identify(draft, body, resolved.fence, self._fleet)

    def _check_place(self, draft: Draft, resolved: Resolved) -> None:
        here = self._store.region
        if draft.pin_region not in {"", here} or here not in self._fleet.inside(resolved.fence):
            raise NoRegionPermitted(
                f"the task may not be in region {here}, the one that this test stands in; "
                "give TestClient(region=...) another one of the fleet"
            )

    def _task(self, draft: Draft, resolved: Resolved, identity: Identity) -> NewTask:
        now_ms, here, mark = self._clock.now_ms(), self._store.region, identity.mark
        packed = codec.pack(
            draft,
            fingerprint=identity.fingerprint if identity.deduplicated else b"",
            fence=resolved.fence,
            traceparent="",
            birth_region=here if identity.deduplicated else "",
            deduplicated=identity.deduplicated,
        )
        if mark is not None and draft.not_before_ms:
            mark = mark._replace(not_before_ms=draft.not_before_ms)
        return NewTask(
            ids.mint(now_ms, ids.region_code(here), 0, self._entropy.getrandbits(64)),
            draft.queue,
            draft.name,
            draft.priority,
            packed,
            fence=resolved.fence,
            delay_ms=draft.delay_ms,
            not_before_ms=draft.not_before_ms,
            expires_ms=draft.expires_ms,
            max_crashes=self._fleet.queue(draft.queue).max_crashes,
            done_key=identity.done_key,
            mark=mark,
        )

    async def _first(self, draft: Draft, hit: LedgerHit) -> Receipt:
        """Answer a submit that the ledger has seen before."""
        if not hit.same_payload:
            if draft.idempotency_key and hit.state is None:
                raise IdempotencyKeyReused(hit.task_id)
            problem = f"already names task {hit.task_id} with another payload; use a new one"
            raise InvalidTask.field("request_id", problem)
        if hit.state is not None:  # a repeat of what was cancelled
            return self._receipt(hit.task_id, hit.state, duplicate=False, rule=BY_LEDGER)
        found = await self._store.read(hit.task_id)
        state = found.state if isinstance(found, Record) else State.COMPLETED
        return self._receipt(hit.task_id, state, duplicate=not hit.mine, rule=BY_LEDGER)

    def _receipt(self, task_id: str, state: State, *, duplicate: bool, rule: str) -> Receipt:
        region = self._store.region
        return receipt_of(
            wire.receipt(
                router_pb2.SubmitTaskResponse(),
                task_id,
                region=region,
                state=state,
                duplicate=duplicate,
                rule=rule,
            )
        )
