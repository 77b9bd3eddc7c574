"""Who comes between: a client, an operator, the task's own end. As routers do it."""

from router.cancel import Canceller
from router.dead import Filter
from router.job import Deadline
from router.keys import Keys
from router.lookup import Lookup
from router.redrive import DeadWork, Done
from router.watch import Watches
from tests.moves.world import EXPIRES_MS, HERE, REGIONS, Submitted, World
from tests.scripts.world import PARTITIONS, PLACE, an_id
from tradewind import codec
from tradewind.errors import RegionSilent, UnknownTask
from tradewind.state import State
from tradewind.task import LedgerHit, Record

PATIENCE_S = 2.0  # of one who cancels: everybody answers at once


class Intruders:
    """Of one task. Notes what was promised to them."""

    def __init__(self, world: World, submitted: Submitted) -> None:
        """Nobody has come yet."""
        self._world, self._submitted = world, submitted
        self._stores = world.plain
        self.lookup = Lookup(self._stores, PARTITIONS)
        self.was_cancelled = False
        self.was_purged = False
        self.has_expired = False
        self.redriven_after: int | None = None  # stays at the time

    async def come(self, who: str) -> None:
        """Raises AssertionError for a wrong answer."""
        match who:
            case "cancel":
                await self._cancel()
            case "redrive":
                await self._redrive()
            case "purge":
                await self._purge()
            case "expiry":
                left_ms = EXPIRES_MS + 1_000 - self._world.passed_ms
                await self._world.advance(max(0, left_ms))
                self.has_expired = True
                self._tell(who, "has passed")
            case _:
                await self.submit_again(who)

    async def _cancel(self) -> None:
        canceller = Canceller(
            self._world.fleet,
            self._stores,
            Keys(self._world.fleet, self._stores),
            self.lookup,
            Watches(self._stores, self.lookup),
        )
        deadline = Deadline.after(PATIENCE_S, is_callers=False)
        try:
            answer = await canceller.cancel(self._submitted.task_id, deadline)
        except (RegionSilent, UnknownTask) as error:
            self._tell("cancel", type(error).__name__)
            return
        self.was_cancelled = answer.cancelled
        self._tell("cancel", f"{answer.cancelled}, {answer.record.state}")

    async def _purge(self) -> None:
        fleet = self._world.fleet
        work, done = DeadWork(fleet, self._stores, Keys(fleet, self._stores)), Done()
        wanted = Filter(REGIONS, task_ids=frozenset({self._submitted.task_id}))
        deadline = Deadline.after(PATIENCE_S, is_callers=False)
        await work.purge(wanted, done, dry_run=False, deadline=deadline)
        self.was_purged = done.count > 0
        self._tell("purge", f"{done.counts}, silent {sorted(done.silent)}")

    async def _redrive(self) -> None:
        for name in REGIONS:
            if name in self._world.out:
                continue
            found = await self._stores[name].read(self._submitted.task_id)
            if isinstance(found, Record) and found.state is State.DEAD_LETTER:
                done = await self._stores[name].redrive(found.task_id, found.epoch)
                self._tell("redrive", f"{name}: {done}")
                if done:
                    self.redriven_after = len(codec.hops(found.hops))
                return
        self._tell("redrive", "nothing is dead")

    async def submit_again(self, who: str) -> None:
        """A repeat or a duplicate: it gets the first task's id, wherever its router looks."""
        mark, first = self._submitted.mark, self._submitted.task_id
        if self._submitted.home in self._world.out:
            self._tell(who, "the home of its key is out")
            return
        home = self._stores[self._submitted.home]
        again = self._submitted.task._replace(task_id=an_id(PLACE, self._submitted.home))
        ((answer,), _) = await home.enqueue([again], timeout_s=5)
        elsewhere = await home.reserve(mark, an_id(PLACE, HERE), HERE, 1)
        for hit in (answer, elsewhere):
            assert isinstance(hit, LedgerHit), f"{who} got {hit}"
            assert (hit.task_id, hit.confirmed) == (first, True), f"{who} got {hit}"
        self._tell(who, "the first id")

    def _tell(self, who: str, what: str) -> None:
        self._world.told.append(f"  {who}: {what}")
