"""Changes made at the same time over a network that loses, delays and turns messages round.

The real vote over registers in memory. Every message waits until the test says what becomes of it,
so Hypothesis searches the interleavings; what it finds it makes small.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from router.vote import Vote, Wish
from tests.unit.control.worlds import fleet_of
from tradewind.control import (
    UNKNOWN,
    Barred,
    Control,
    Evacuation,
    Stamp,
    Standing,
    in_force,
    is_majority,
    pause,
)
from tradewind.errors import ControlConflict, ControlUnavailable, StoreUnavailable
from tradewind.testing import MemoryStore

FATES = ("arrives", "arrives", "arrives", "is lost", "its answer is lost", "comes late")
Step = tuple[int, str]
steps = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(FATES)), max_size=80)


@dataclass
class Network:
    """Messages under way, and what every region has accepted so far."""

    waiting: list[tuple[Callable[[], Any], "asyncio.Future[Any]"]] = field(
        default_factory=list[tuple[Callable[[], Any], "asyncio.Future[Any]"]]
    )
    late: list[Callable[[], Any]] = field(default_factory=list[Callable[[], Any]])

    def send(self, act: Callable[[], Any]) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting.append((act, answer))
        return answer

    def step(self, which: int, fate: str) -> None:
        if not self.waiting or (self.late and which % 5 == 0):
            if self.late:
                self.late.pop(which % len(self.late))()
            return
        act, answer = self.waiting.pop(which % len(self.waiting))
        if fate == "comes late":
            self.late.append(act)
        answered = act() if fate in {"arrives", "its answer is lost"} else None
        if fate == "arrives":
            answer.set_result(answered)
        else:
            answer.set_exception(StoreUnavailable("r", "lost", sent=True))


class Far:
    """A region's register behind the network."""

    def __init__(self, name: str, regions: Sequence[str], network: Network) -> None:
        self.region, self._network = name, network
        self.store = MemoryStore(name, fleet_of(*regions))
        self.accepted: list[Control] = []

    def held(self) -> Control | None:
        return None  # a router that has heard nothing yet: the worst case

    async def control(self, *, timeout_s: float) -> Control:
        return await self._network.send(self.store.held)

    async def control_promise(self, stamp: Stamp, *, timeout_s: float) -> Control | Barred:
        return await self._network.send(
            lambda: done(self.store.control_promise(stamp, timeout_s=1))
        )

    async def control_accept(self, control: Control, *, timeout_s: float) -> Barred | None:
        return await self._network.send(lambda: self._accept(control))

    def _accept(self, control: Control) -> Barred | None:
        barred = done(self.store.control_accept(control, timeout_s=1))
        if barred is None:
            self.accepted.append(control)
        return barred


def done(step: Coroutine[Any, Any, Any]) -> Any:
    """The outcome of a coroutine that waits for nothing."""
    try:
        step.send(None)
    except StopIteration as over:
        return over.value
    raise AssertionError


async def soon(_tries: int) -> None:
    await asyncio.sleep(0)


def counted(control: Control) -> Control:
    """A change that shows if it is made twice, or undone."""
    count = control.evacuations.get("n", Evacuation()).rate_per_s
    return replace(control, evacuations={"n": Evacuation(count + 1)})


def marked(name: str) -> Callable[[Control], Control]:
    return lambda control: counted(pause(control, name))


def count_of(control: Control) -> float:
    return control.evacuations.get("n", Evacuation()).rate_per_s


@dataclass
class Outcome:
    """What the operators were told, and what was to be seen."""

    ok: dict[str, Control]
    doubtful: set[str]
    far: Mapping[str, Far]
    read: list[list[Standing]]
    stood: list[tuple[set[str], Control | None]]  # what was OK before somebody asked; the answer
    final: Control


async def played(script: list[Step], regions: Sequence[str], operators: int) -> Outcome:
    """Let operators change the document at once; then let the network be well for one more."""
    network = Network()
    far = {name: Far(name, regions, network) for name in regions}
    vote = Vote(far, lambda: UNKNOWN, pause=soon)
    ok: dict[str, Control] = {}
    doubtful: set[str] = set()

    async def operator(name: str) -> None:
        try:
            ok[name] = await vote.carry(Wish(marked(name)))
        except (ControlConflict, ControlUnavailable):
            doubtful.add(name)

    stood: list[tuple[set[str], Control | None]] = []

    async def repeats() -> None:
        before = set(ok)
        stood.append((before, await vote.stands(Wish(lambda control: control))))

    tasks = [asyncio.create_task(operator(f"q{n}")) for n in range(operators)]
    readers = [[UNKNOWN], [UNKNOWN]]
    seen: list[dict[str, Control]] = [{}, {}]
    for number, (which, fate) in enumerate(script):
        if number % 7 == 0:
            tasks.append(asyncio.create_task(repeats()))
        for _ in range(4):
            await asyncio.sleep(0)
        network.step(which, fate)
        reader, name = which % 2, regions[which % len(regions)]
        seen[reader][name] = far[name].store.room.control
        readers[reader].append(in_force(seen[reader], regions, readers[reader][-1]))
    await settled(network, tasks)
    last = asyncio.create_task(vote.carry(Wish(marked("last"))))
    await settled(network, [last])
    return Outcome(ok, doubtful, far, readers, stood, last.result())


async def settled(network: Network, tasks: "list[asyncio.Task[Any]]") -> None:
    while not all(task.done() for task in tasks):
        for _ in range(4):
            await asyncio.sleep(0)
        network.step(1, "arrives")
    await asyncio.gather(*tasks)


def judge(out: Outcome) -> None:
    regions = list(out.far)
    holders: dict[Stamp, set[str]] = {}
    versions: dict[Stamp, Control] = {}
    for name, one in out.far.items():
        for control in one.accepted:
            holders.setdefault(control.stamp, set()).add(name)
            assert versions.setdefault(control.stamp, control) == control
    chosen = sorted(s for s, names in holders.items() if is_majority(names, regions))
    epochs = [stamp.epoch for stamp in chosen]
    assert len(set(epochs)) == len(epochs), "two in force for one epoch"
    for before, after in itertools.pairwise(chosen):
        assert versions[before].pauses.keys() <= versions[after].pauses.keys(), "undone"
    assert out.ok.keys() <= out.final.pauses.keys(), "what was answered OK is lost"
    assert out.final.pauses.keys() <= {*out.ok, *out.doubtful, "last"}
    assert count_of(out.final) == len(out.final.pauses), "made twice"
    for before, found in out.stood:
        assert found is None or before <= found.pauses.keys(), (
            "an order is said to stand by old news"
        )
        assert found is None or found.stamp in {*chosen, Stamp(0, "")}
    for readings in out.read:
        stamps = [reading.control.stamp for reading in readings if reading.sure]
        assert stamps == sorted(stamps), "a reader went back"
        assert set(stamps) <= {*chosen, Stamp(0, "")}, "read what was never in force"


@settings(max_examples=150)
@given(steps, st.sampled_from([2, 3, 5]), st.integers(1, 3))
def test_what_was_answered_ok_is_never_lost_and_nothing_is_made_twice(
    script: list[Step], size: int, operators: int
) -> None:
    judge(asyncio.run(played(script, [f"r{n}" for n in range(size)], operators)))
