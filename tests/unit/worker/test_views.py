"""How other regions look to a courier: what their Redis is fit for."""

import pytest

from tradewind.clock import ManualClock
from tradewind.fleet import Fleet, RedisTarget, Region
from tradewind.policy.relocate import Stranded, relocate
from tradewind.task import Heartbeat, LiveWorker, Probe
from tradewind.testing.memory.store import MemoryStore
from worker.views import Views

HERE = RedisTarget("standalone", ("127.0.0.1:1",))
FLEET = Fleet({name: Region(name, HERE) for name in ("eu", "us")})
TASK = Stranded("eu", "default", "send")


class Elsewhere(MemoryStore):
    """Another region with a worker, whose Redis is as the test says."""

    def __init__(self, found: Probe) -> None:
        super().__init__("us", FLEET)
        self._found = found

    async def probe(self) -> Probe:
        return self._found

    async def workers(self) -> list[LiveWorker]:
        beat = Heartbeat("w", "us", ("default",), ("send",), 4, 0, 0, 0, 1, "1")
        return [LiveWorker(beat, 0)]


FITNESS: dict[str, tuple[Probe, bool, str]] = {
    "one that is well": (Probe(1.0, memory=0.5), False, ""),
    "a full one": (Probe(1.0, memory=1.1, full=True), False, "us: full"),
    "one that would delete tasks": (Probe(1.0, evicts="allkeys-lru"), False, "us: evicts keys"),
    "the same, which the operator allows": (Probe(1.0, evicts="allkeys-lru"), True, ""),
}


@pytest.mark.parametrize(("found", "allow", "why_not"), FITNESS.values(), ids=FITNESS)
async def test_couriers_move_nothing_to_a_redis_that_cannot_keep_it(
    found: Probe, allow: bool, why_not: str
) -> None:
    views = Views("eu", FLEET, {"us": Elsewhere(found)}, ManualClock(), allow_eviction=allow)
    choice = relocate(TASK, await views.current(), FLEET)
    assert (choice.target, choice.reason) == ("" if why_not else "us", why_not)
