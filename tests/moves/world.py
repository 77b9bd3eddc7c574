"""Three real regions whose clocks the test moves, one task in them, and couriers for it."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

import redis

from tests.conftest import fleet_on
from tests.machine.clock import KEY, Clock
from tests.machine.dump import Dump, dump
from tests.moves.matrix import KINDS, Matter
from tests.moves.wire import Surroundings, Wire
from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    PARTITIONS,
    PLACE,
    a_mark,
    a_task,
    an_id,
    claim_batch,
    client_of,
    keys_at,
)
from tests.unit.worker.moving_yard import a_beat
from tradewind import codec
from tradewind.admission.identity import homes
from tradewind.attempts.settle import Failed, Rejected, Terms, TimedOut, Unreadable, settle
from tradewind.clock import ManualClock
from tradewind.control import Control, Evacuation, Order, Stamp
from tradewind.fingerprint import done_key, ledger_key_business, ledger_key_request
from tradewind.fleet import FailoverPlan, Fleet, QueueFailover, QueuePolicy
from tradewind.ids import partition_of
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import Bury, Claim, Draft, Finish, LedgerMark, NewTask, RetryAt
from tradewind.v1.task_pb2 import TaskSpec
from worker.courier import Courier
from worker.views import Views

HERE, THERE, FAR = "eu-west", "us-east", "ap-south"
REGIONS: Final = (HERE, THERE, FAR)
PLAN = FailoverPlan(
    order={HERE: (THERE, FAR), FAR: (HERE,)}, unserved_after_ms=1_000, rescue_after_ms=1_000
)
QUEUE = QueuePolicy(failover=QueueFailover(on=KINDS, max_hops=2))
FENCE = ("eu", "us", "apac")
VERDICTS = {
    "exhausted": Failed(FAILURE),
    "timeout": TimedOut(FAILURE),
    "rejected": Rejected(FAILURE),
    "damaged": Unreadable(FAILURE),
}
Form = Literal["standalone", "cluster"]
TORN = b"\xff"
READY_MS = 40_000  # when the first courier comes, from the start of a case
SOON_MS, LATE_MS = 30_000, 700_000  # due before that; due after all that happens
EXPIRES_MS = READY_MS + 95_000  # after what a quick courier does
KEPT_MS = 1_000  # of a record that ended: as short as a queue without dedup may have it
ORDERED_MS = 5


@dataclass(frozen=True, slots=True)
class Submitted:
    """The task of a case, and the entry of the ledger that stands for it."""

    task: NewTask
    mark: LedgerMark
    home: str

    @property
    def task_id(self) -> str:
        return self.task.task_id


class World:
    """The regions, and who has a connection to them."""

    def __init__(self, servers: Sequence[RedisProcess], form: Form = "standalone") -> None:
        """Nothing is connected yet. A Cluster is one of a single node here."""
        ports = {name: server.port for name, server in zip(REGIONS, servers, strict=False)}
        self.raw = {name: _connected(port, decode_responses=True) for name, port in ports.items()}
        self._bytes = {name: _connected(port) for name, port in ports.items()}
        fleet = replace(fleet_on(servers), default_queue=QUEUE, failover=PLAN)
        regions = {
            name: replace(region, redis=replace(region.redis, kind=form))
            for name, region in fleet.regions.items()
        }
        self.fleet = replace(fleet, regions=regions)
        self._whole = self.fleet  # before a policy changes it
        # Of routers and workers; of the first courier, of the second, of those after them.
        self.plain, self.first, self.second, self.later = (self._stores() for _ in range(4))
        self.everybody = (self.plain, self.first, self.second, self.later)
        self.control, self.working = Control(Stamp(1, "a")), frozenset[str]()
        self.out: set[str] = set()  # regions that do not answer
        self.full: set[str] = set()

    def _stores(self) -> dict[str, RegionStore]:
        return {name: RegionStore(self.fleet.regions[name], self.fleet) for name in REGIONS}

    async def start(self) -> None:
        """Connect all."""
        for name in REGIONS:
            self.empty(name)
        self.clock = Clock(self.raw)
        for stores in self.everybody:
            for store in stores.values():
                await store.start()

    async def close(self) -> None:
        """Disconnect all."""
        for stores in self.everybody:
            for store in stores.values():
                await store.close()
        for client in (*self.raw.values(), *self._bytes.values()):
            client.close()

    async def anew(self) -> None:
        """Forget every task; regions know who they are."""
        for name, raw in self.raw.items():
            self.empty(name)
            with raw.pipeline(transaction=False) as pipe:
                for key in raw.scan_iter(count=1000):
                    if not key.endswith(":identity"):
                        pipe.delete(key)
                pipe.execute()
        self._follow(self._whole)
        self.clock, self.host = Clock(self.raw), ManualClock()
        self.control, self.working = Control(Stamp(1, "a")), frozenset[str]()
        self.passed_ms = 0
        self.told: list[str] = []
        self.out.clear()
        self._wires: list[tuple[Wire, Mapping[str, RegionStore]]] = []
        self._couriers: list[tuple[Courier, Mapping[str, RegionStore]]] = []
        self.wire("others", self.plain, Surroundings())
        await self.advance(0)

    async def advance(self, by_ms: int) -> None:
        """Time passes everywhere; who works says so."""
        with self._room():
            self.clock.advance(by_ms)
        self.host.advance(by_ms)
        self.passed_ms += by_ms
        for stores in self.everybody:
            for store in stores.values():
                client_of(store).nodes.note_clock(PLACE, self.clock.now_ms)
        for name in self.working - self.out:
            await self.plain[name].heartbeat(a_beat(name))

    async def work_in(self, *regions: str) -> None:
        """Workers live there, and nowhere else."""
        for name in self.working.difference(regions):
            await self.plain[name].farewell(f"{name}/w")
        self.working = frozenset(regions)
        await self.advance(0)

    def courier(self, stores: Mapping[str, RegionStore], region: str = HERE) -> Courier:
        """One of a region's own pool, that has seen nothing yet."""
        targets = {name: store for name, store in stores.items() if name != region}
        views = Views(region, self.fleet, targets, self.host)
        courier = Courier(
            stores[region],
            self.fleet,
            targets,
            views,
            clock=self.host,
            control=lambda: self.control,
        )
        self._couriers.append((courier, stores))
        return courier

    def wire(self, who: str, stores: Mapping[str, RegionStore], around: Surroundings) -> Wire:
        """Put one between these stores and their regions."""
        wire = Wire(who, stores, around, home=HERE, out=self.out, told=self.told)
        self._wires.append((wire, stores))
        return wire

    def close_target(self) -> None:
        """A new policy takes THERE out of the fence of the task. Who sleeps does not hear of it."""
        closed = replace(self.fleet.regions[THERE], residency=("elsewhere",))
        asleep = [stores for wire, stores in self._wires if wire.sleeps]
        self._follow(replace(self._whole, regions={**self._whole.regions, THERE: closed}), asleep)
        for wire, stores in self._wires:
            if stores not in asleep:
                wire.closed.add(THERE)
        for courier, stores in self._couriers:
            if stores not in asleep:
                targets = {name: store for name, store in stores.items() if name != HERE}
                courier.follow(self.fleet, targets)
        self.told.append(f"  a new policy: {THERE} is out of the fence")

    def _follow(self, fleet: Fleet, asleep: Sequence[Mapping[str, RegionStore]] = ()) -> None:
        self.fleet = fleet
        for stores in self.everybody:
            for store in stores.values():
                if stores not in asleep:
                    store.follow(fleet)

    def fill(self, region: str) -> None:
        """Leave it no memory for what is new."""
        self.full.add(region)
        self.raw[region].config_set("maxmemory", 1)

    def empty(self, region: str) -> None:
        """Give it as much as it wants."""
        self.full.discard(region)
        self.raw[region].config_set("maxmemory", 0)

    @contextmanager
    def _room(self) -> Generator[None]:
        """For what the test itself writes."""
        full = list(self.full)
        for region in full:
            self.empty(region)
        yield
        for region in full:
            self.fill(region)

    def remember(self, region: str) -> Callable[[], None]:
        """All keys of a region, with their TTLs; what is returned brings them back."""
        raw = self._bytes[region]
        kept = [key for key in raw.scan_iter(count=1000) if key != KEY.encode()]
        with raw.pipeline(transaction=False) as pipe:
            for key in kept:
                pipe.dump(key)
                pipe.pttl(key)
            found = pipe.execute()

        def bring_back() -> None:
            now = [key for key in raw.scan_iter(count=1000) if key != KEY.encode()]
            with self._room(), raw.pipeline(transaction=False) as pipe:
                for key in now:
                    pipe.delete(key)
                for key, value, ttl in zip(kept, found[::2], found[1::2], strict=True):
                    if value is not None:
                        pipe.restore(key, max(ttl, 0), value)
                pipe.script_flush()
                pipe.execute()

        return bring_back

    def look(self) -> dict[str, Dump]:
        """What each region holds of the partition."""
        return {name: _of_the_partition(dump(raw)) for name, raw in self.raw.items()}

    def evacuate(self, region: str) -> None:
        """All that waits there is to leave; and no other region is evacuated any more."""
        self.control = replace(
            self.control,
            regions={region: Order("DRAINING")},
            evacuations={region: Evacuation(0.0, at_ms=ORDERED_MS)},
        )

    # --- the life of a task before

    async def submitted(
        self, matter: Matter, *, by_key: bool, expires: bool, fence: Sequence[str]
    ) -> Submitted:
        """The task is where it is to leave from, in its state, READY_MS from the start."""
        birth = FAR if matter.guest else HERE
        submitted = _submit(
            self.fleet,
            birth,
            by_key=by_key,
            fence=tuple(fence),
            delay_ms=0 if matter.former is not State.SCHEDULED else _delay_ms(matter),
            expires_ms=self.clock.now_ms + EXPIRES_MS if expires else 0,
        )
        ((stored,), _) = await self.plain[birth].enqueue([submitted.task], timeout_s=5)
        assert getattr(stored, "created", False), stored
        if matter.guest:
            await self._dies("exhausted", FAR)
            await self.work_in(HERE)
            await self.courier(self.plain, FAR).work(PLACE)
            await self.work_in()
        if matter.former is State.DEAD_LETTER:
            died = matter.reason if matter.reason != "evacuation" else "exhausted"
            await self._dies(died, HERE, stays=matter.stays)
            if matter.torn:
                self._bytes[HERE].hset(keys_at().task(submitted.task_id), "p", TORN)
        elif matter.former is State.FAILED:
            again = RetryAt(await self.claim(HERE), _delay_ms(matter), FAILURE)
            (settled,) = await self.plain[HERE].retry([again])
            assert not getattr(settled, "lost", True), settled
        if matter.reason == "evacuation":
            self.evacuate(HERE)
        return submitted

    async def _dies(self, kind: Any, region: str, *, stays: bool = False) -> None:
        """As a worker decides it; the third crash in a row is not waited for."""
        claim, on = await self.claim(region), tuple(k for k in KINDS if k != kind or not stays)
        policy = replace(QUEUE, failover=replace(QUEUE.failover, on=on))
        verdict = VERDICTS.get(kind, VERDICTS["exhausted"])
        bury = settle(claim, verdict, policy, Terms(attempts=1, timeout_ms=1), jitter=0)
        assert isinstance(bury, Bury), bury
        if kind not in VERDICTS:
            bury = replace(bury, kind=kind, may_move=not stays)
        bury = replace(bury, retention_ms=20 * DAY_MS)
        (settled,) = await self.plain[region].bury([bury])
        assert not getattr(settled, "lost", True), settled

    async def claim(self, region: str) -> Claim:
        (claim,) = (await claim_batch(self.plain[region])).claims
        return claim

    async def run_all(self) -> int:
        """What can be claimed anywhere is run to its end. Returns how many runs that were."""
        runs = 0
        for store in (store for name, store in self.plain.items() if name not in self.out):
            for _ in range(2):  # of what is due the first claim may only tell
                claims = (await claim_batch(store, suspects=10)).claims
                runs += len(claims)
                await store.finish([Finish(claim, b"", "", KEPT_MS) for claim in claims])
        return runs


def _connected(port: int, **options: Any) -> Any:
    """Past all our code; what is no text of records is shown as well as may be."""
    return cast("Any", redis.Redis(port=port, encoding_errors="replace", **options))


def _delay_ms(matter: Matter) -> int:
    """Nobody is missed for what is not due."""
    return SOON_MS if matter.reason == "unserved" else LATE_MS


def _submit(
    fleet: Fleet,
    birth: str,
    *,
    by_key: bool,
    fence: tuple[str, ...],
    delay_ms: int,
    expires_ms: int,
) -> Submitted:
    fingerprint, request = _keys_at(birth, fleet, fence)
    spec = TaskSpec(queue="mail", name="send", request_id=request)
    key = ledger_key_request("", request)
    if by_key:
        key = ledger_key_business("", "mail", "send", fence, fingerprint)
    mark = a_mark(key, business=by_key, window_ms=20 * DAY_MS)
    packed = codec.pack(
        Draft(name="send", spec=spec.SerializeToString()),
        fingerprint=fingerprint if by_key else b"",
        fence=fence,
        traceparent="",
        birth_region=birth if by_key else "",
        deduplicated=by_key,
    )
    task = a_task(
        an_id(PLACE, birth),
        fence=fence,
        delay_ms=delay_ms,
        expires_ms=expires_ms,
        done_key=done_key(key, mark.digest) if by_key else b"",
        mark=mark,
        packed=packed,
    )
    return Submitted(task, mark, birth)


_found: dict[tuple[str, tuple[str, ...]], tuple[bytes, str]] = {}


def _keys_at(home: str, fleet: Fleet, fence: tuple[str, ...]) -> tuple[bytes, str]:
    """A fingerprint and a request_id whose entries are kept there, beside the task."""
    if (home, fence) not in _found:
        fingerprints = (n.to_bytes(32, "big") for n in range(10_000))
        fingerprint = next(
            one
            for one in fingerprints
            if partition_of(key := ledger_key_business("", "mail", "send", fence, one), PARTITIONS)
            == PLACE
            and homes(key, fence, fleet) == (home,)
        )
        requests = (f"request-{n}" for n in range(10_000))
        request = next(
            one
            for one in requests
            if partition_of(ledger_key_request("", one), PARTITIONS) == PLACE
        )
        _found[home, fence] = fingerprint, request
    return _found[home, fence]


def _of_the_partition(seen: Dump) -> Dump:
    """Less what a region keeps for all of its partitions."""
    return Dump(
        {key: value for key, value in seen.keys.items() if not key.startswith("tw:{")},
        frozenset(key for key in seen.lasting if not key.startswith("tw:{")),
    )
