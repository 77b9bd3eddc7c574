"""What operators have ordered, as this router sees it: it acts on it, changes it and repairs it.

Nothing is asked for only to know it: what a region holds comes with its heartbeats, which the
census reads every second. No state of this router outlives it; the regions hold the document.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from router.failures import report
from router.vote import ANSWER_S, Vote, Wish
from tradewind import metrics
from tradewind.control import (
    UNKNOWN,
    Barred,
    Control,
    RegionState,
    Stamp,
    Standing,
    in_force,
    laggards,
    overruled,
    undecided,
)
from tradewind.errors import ControlConflict, ControlUnavailable, StoreError
from tradewind.fleet import Fleet
from tradewind.limits import SECOND_MS, SETTLE_MS
from tradewind.ports import Register
from tradewind.task import LiveWorker
from tradewind.ticks import tick

_log = logging.getLogger(__name__)
_LOOK_S: Final = 1.0  # between two looks for regions that lag behind
_CLEAR_S: Final = 0.2  # between two looks whether workers obey
# A change under way needs no help: it has taken its regions within two answers and some pauses.
_OVERDUE_S: Final = 2 * ANSWER_S
_ALL: Final = ""  # in the place of a region: what all have to decide anew
_SPREAD_S: Final = 4.0  # routers that see the same do not all act at the same time


class Seen(Protocol):
    """What this needs of the census."""

    def workers(self, region: str) -> Sequence[LiveWorker]:
        """The live workers of a region, as last read."""
        ...

    def answers(self, region: str) -> bool:
        """Whether a call to it is worth while."""
        ...

    def steer(self, states: Mapping[str, RegionState]) -> None:
        """Take the states that operators gave to regions; those not named are ACTIVE."""
        ...

    async def muster(self, region: str) -> None:
        """Read a region's heartbeats now."""
        ...


class Orders:
    """The control document in this router. Belongs to one event loop."""

    def __init__(
        self,
        fleet: Fleet,
        registers: Mapping[str, Register],
        census: Seen,
        *,
        later: Callable[[], float] = lambda: _OVERDUE_S + _SPREAD_S * random.random(),
    ) -> None:
        """`registers` of all regions. `later()`: how long to watch, in s, before helping out."""
        self._census, self._later = census, later
        self._registers: dict[str, Register] = {}
        self._standing = UNKNOWN
        self._changing = asyncio.Lock()
        self._fresh: set[str] = set()  # heard since the last look
        self._heard: Counter[str] = Counter()  # how often the heartbeats of a region were read
        self._overruled: Stamp | None = None  # of the version that was last warned of
        self._due_s: dict[str, float] = {}  # when to help out which region
        self._barred = 0  # by this epoch: a repair
        self.follow(fleet, registers)

    def follow(self, fleet: Fleet, registers: Mapping[str, Register]) -> None:
        """Go on with another fleet. What was in force stays so until its regions say otherwise."""
        for name in self._registers.keys() - registers.keys():
            for state in metrics.ORDERED_STATES:
                metrics.forget(metrics.REGION_ORDER, name, state)
        self._fleet, self._registers = fleet, dict(registers)
        self._vote = Vote(self._registers, lambda: self._standing)
        self._due_s = {}
        self._take(is_first=True)

    @property
    def control(self) -> Control:
        """What is in force, as far as this router knows."""
        return self._standing.control

    def heard(self, region: str) -> None:
        """The heartbeats of a region were read, and with them what it holds."""
        self._fresh.add(region)
        self._heard[region] += 1
        self._take()

    # --- changes

    async def change(self, wish: Wish, *, settles: Sequence[str] = ()) -> Control:
        """Bring a change into force; returns the version that holds it.

        Where nothing is to be changed that is the one in force.

        Then, for at most SETTLE_MS, waits until the live workers of the regions `settles` have said
        that they obey. Of one that does not answer nobody says so, and its workers may have to see
        the change in other regions: for it all of that time is waited out. Raises what `Vote.carry`
        does.
        """
        async with self._changing:
            version = await self._vote.stands(wish) or await self._carry(wish)
        if settles:
            await self._settled(settles, version.stamp.epoch)
        return version

    async def _carry(self, wish: Wish) -> Control:
        try:
            return await self._vote.carry(wish)
        finally:  # also of a change that failed something may have been taken
            self._take()

    async def _settled(self, regions: Sequence[str], epoch: int) -> None:
        """Wait until the workers of all these regions have been heard to obey, or for SETTLE_MS."""
        before = self._heard.copy()

        def silent() -> list[str]:
            return [name for name in regions if self._heard[name] == before[name]]

        def behind() -> list[str]:
            beats = [w.heartbeat for name in regions for w in self._census.workers(name)]
            return [beat.worker_id for beat in beats if beat.control < epoch]

        try:
            async with asyncio.timeout(SETTLE_MS / SECOND_MS):
                while True:
                    near = filter(self._census.answers, regions)
                    musters = map(self._census.muster, near)
                    for failed in await asyncio.gather(*musters, return_exceptions=True):
                        if isinstance(failed, Exception):  # the change is in force all the same
                            report("waiting for workers to obey", failed)
                    if not (silent() or behind()):
                        return
                    await asyncio.sleep(_CLEAR_S)
        except TimeoutError:
            extra = {"workers": behind(), "silent": silent(), "epoch": epoch}
            _log.warning("workers have not said yet that they obey", extra=extra)

    # --- what is in force

    def _seen(self) -> dict[str, Control]:
        held = {name: register.held() for name, register in self._registers.items()}
        return {name: control for name, control in held.items() if control is not None}

    def _take(self, *, is_first: bool = False) -> None:
        """Act on what is in force now."""
        before = self._standing
        self._standing = in_force(self._seen(), self._fleet.regions.keys(), before)
        if self._standing.control.stamp == before.control.stamp and not is_first:
            return
        now = self._standing.control
        self._census.steer({name: now.state(name) for name in self._fleet.regions})
        metrics.CONTROL_EPOCH.set(now.stamp.epoch)
        metrics.PAUSED_QUEUES.set(len(now.pauses))
        for name in self._fleet.regions:
            for state in metrics.ORDERED_STATES:
                metrics.REGION_ORDER.labels(name, state).set(state == now.state(name).lower())
        _tell(before.control, now)

    # --- repair

    async def run(self) -> None:
        """Help regions that lag behind, and changes that were given up, until cancelled."""
        while True:
            try:
                await self._help()
            except Exception as error:  # noqa: BLE001 - the next look comes all the same
                report("control document", error)
            await tick(_LOOK_S)

    async def _help(self) -> None:
        seen, standing, names = self._seen(), self._standing, self._fleet.regions.keys()
        fresh, self._fresh = self._fresh.intersection(names), set()
        behind = laggards(seen, fresh, standing) if standing.sure else []
        self._warn(overruled(seen, names, standing))
        self._barred = self._barred if behind else 0
        is_stuck = undecided(seen, names, standing) or self._barred
        due = self._overdue([*behind, _ALL] if is_stuck else behind)
        await asyncio.gather(*(self._repair(name, standing) for name in due if name != _ALL))
        if _ALL in due:
            await self._carry_on()

    def _overdue(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that have needed help for long enough."""
        now_s = asyncio.get_running_loop().time()
        self._due_s = {name: self._due_s.get(name, now_s + self._later()) for name in names}
        due = [name for name, due_s in self._due_s.items() if due_s <= now_s]
        self._due_s |= {name: now_s + self._later() for name in due}
        return due

    def _warn(self, lost: Control | None) -> None:
        """Say once that a version is overwritten that a majority holds."""
        if lost is None or lost.stamp == self._overruled:
            return
        self._overruled, now = lost.stamp, self._standing.control
        extra = {"epoch": now.stamp.epoch, "overwritten": lost.stamp.epoch}
        _log.warning(
            "regions were set back and changed since; what was in force before comes back: "
            "look at states and pauses, and order again what is missing",
            extra=extra,
        )

    async def _repair(self, name: str, standing: Standing) -> None:
        """Send it once more what is in force."""
        register = self._registers[name]
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await register.control_accept(standing.control, timeout_s=ANSWER_S)
        except (StoreError, TimeoutError):
            return  # it is asked again when it has been heard again
        if isinstance(answer, Barred):  # by a promise to a change that was given up
            self._barred = answer.epoch
        else:
            extra = {"of": name, "epoch": standing.control.stamp.epoch}
            _log.info("a region holds the control document again", extra=extra)
            self._take()

    async def _carry_on(self) -> None:
        """Make a version of what is the highest now: so it is decided, one way or the other."""
        try:
            async with self._changing:
                await self._carry(Wish(lambda control: control, above=self._barred))
        except (ControlConflict, ControlUnavailable) as error:
            _log.debug("a change that was given up stays so", extra={"reason": str(error)})


def _tell(before: Control, now: Control) -> None:
    """Log what is ordered now and was not, and who ordered it."""
    epoch = now.stamp.epoch
    for name, order in now.regions.items():
        if order != before.regions.get(name):
            extra = {"of": name, "state": order.state, "by": order.by, "why": order.reason}
            extra |= {"forced": order.forced, "epoch": epoch}
            _log.warning("a region's state is ordered", extra=extra)
    for queue, pause in now.pauses.items():
        if queue not in before.pauses:
            extra = {"queue": queue, "by": pause.by, "epoch": epoch}
            _log.warning("a queue is paused", extra=extra)
    for queue in before.pauses.keys() - now.pauses.keys():
        _log.warning("a queue is resumed", extra={"queue": queue, "epoch": epoch})
    for name, order in now.evacuations.items():
        if order != before.evacuations.get(name):
            extra = {"of": name, "rate_per_s": order.rate_per_s, "by": order.by, "epoch": epoch}
            _log.warning("a region is to be emptied", extra=extra)
    for name in before.evacuations.keys() - now.evacuations.keys():
        _log.warning("a region is not to be emptied any more", extra={"of": name, "epoch": epoch})
