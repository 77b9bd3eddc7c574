"""A spot check of the matrix with real processes: kill -9 in the middle of a move."""

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.flow.lab import Lab
from tests.redis_keys import connected, wrong_counts
from tests.scripts.world import PLACE, keys_at
from tradewind import codec
from tradewind.errors import StoreUnavailable
from tradewind.state import Mark, State
from tradewind.store.letters import LETTERS
from tradewind.task import Pointer, Record

HERE, THERE = "eu-west", "us-east"
QUEUE = "{lease: 1s, attempts: 1, failover: {on: [exhausted], max_hops: 1}}"
LONG_MS = 30_000  # of a pause that the test ends itself
TRIES = 20  # the moments are short: a task that was too fast is no loss

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


class Move:
    """Of one task, as both regions' Redis show it, past all our code."""

    def __init__(self, lab: Lab, task_id: str) -> None:
        self.lab, self.task_id = lab, task_id
        self.raw = {name: connected(port) for name, port in lab.ports.items()}

    async def has_begun(self) -> None:
        async def left() -> bool:
            record = await self.lab.stores[HERE].read(self.task_id)
            return isinstance(record, Pointer) or (
                isinstance(record, Record) and record.state is State.MOVING
            )

        await self.lab.until(left)

    async def is_there(self) -> bool:
        return self.raw[THERE].exists(keys_at().task(self.task_id)) == 1

    async def is_acked(self) -> bool:
        return self.raw[HERE].hget(keys_at().task(self.task_id), "s") == LETTERS[Mark.FORWARDED]

    def hold_writes(self, region: str) -> None:
        self.raw[region].client_pause(LONG_MS, all=False)

    async def let_writes(self, region: str) -> None:
        """What a process has sent and did not live to see carried out is dropped."""
        self.raw[region].client_kill_filter(_type="normal", skipme=True)
        self.raw[region].client_unpause()

        async def answers() -> bool:
            try:
                await self.lab.stores[region].probe()
            except StoreUnavailable:
                return False
            return True

        await self.lab.until(answers)

    async def is_marked(self, region: str) -> None:
        """The courier has put its mark behind what it wrote there, and waits for the disk."""
        index = keys_at().moving if region == HERE else keys_at().imports

        async def marked() -> bool:
            at_ms = self.raw[region].zscore(index, self.task_id)
            mark_ms = self.raw[region].get(keys_at().probe)
            is_later = at_ms is not None and mark_ms is not None and int(mark_ms) >= at_ms
            return is_later or await self.is_acked()

        await self.lab.until(marked)


async def before_the_import(move: Move, kill: Callable[[], None]) -> bool:
    kill()
    return not await move.is_there() and not await move.is_acked()


async def before_the_ack(move: Move, kill: Callable[[], None]) -> bool:
    await move.is_marked(HERE)
    move.hold_writes(HERE)
    try:
        if await move.is_acked():
            return False
        await move.lab.until(move.is_there)
        kill()
    finally:
        await move.let_writes(HERE)
    return not await move.is_acked()


async def before_the_settling(move: Move, kill: Callable[[], None]) -> bool:
    await move.is_marked(HERE)
    move.hold_writes(HERE)
    try:
        if await move.is_acked():
            return False
        await move.is_marked(THERE)
        move.hold_writes(THERE)
        move.raw[HERE].client_unpause()  # the courier goes on
        await move.lab.until(move.is_acked)
        kill()
    finally:
        await move.let_writes(HERE)
        await move.let_writes(THERE)
    return move.raw[THERE].zscore(keys_at().imports, move.task_id) is not None


def ended(worker: "subprocess.Popen[bytes]") -> None:
    worker.kill()
    worker.wait()


@pytest.mark.parametrize("when", [before_the_import, before_the_ack, before_the_settling])
async def test_a_courier_killed_in_the_middle_of_a_move_leaves_one_task(
    make_lab: Callable[..., Lab], when: Any
) -> None:
    lab = make_lab(QUEUE, regions=2)
    there = await lab.worker(THERE)
    first = await lab.worker(HERE)
    task_ids: list[str] = []
    for _ in range(TRIES):
        task_ids.append(await lab.submit("fail.in", {"regions": [HERE]}, partition=PLACE))
        move = Move(lab, task_ids[-1])
        await move.has_begun()
        if await when(move, lambda: ended(first)):  # noqa: B023 - called at once
            break
        if first.poll() is not None:
            first = await lab.worker(HERE)
    else:
        pytest.fail(f"in {TRIES} tries no courier was killed in time")
    await lab.worker(HERE)
    for task_id in task_ids:
        await ran_once_there(lab, task_id)
    # What no courier settled, the target does, as it would after an hour.
    memory = keys_at().memory(move.task_id)
    move.raw[THERE].zadd(keys_at().imports, {move.task_id: 1}, xx=True)
    ended(there)  # it has asked not long ago; a new one asks at once
    await lab.worker(THERE)

    async def may_be_forgotten() -> bool:
        return move.raw[THERE].ttl(memory) > 0

    await lab.until(may_be_forgotten)
    assert [wrong_counts(port) for port in lab.ports.values()] == [{}, {}]


async def ran_once_there(lab: Lab, task_id: str) -> None:
    async def has_moved() -> bool:
        record = await lab.record(task_id, THERE)
        pointer = await lab.stores[HERE].read(task_id)
        return (
            record is not None
            and record.state is State.COMPLETED
            and isinstance(pointer, Pointer)
            and pointer.target == THERE
        )

    await lab.until(has_moved)
    record = await lab.record(task_id, THERE)
    assert record is not None
    stays = [(stay.region, stay.attempts, stay.reason) for stay in codec.hops(record.hops)]
    assert stays == [(HERE, 1, "exhausted")]
    assert [line.region for line in lab.lines(task_id, "start")] == [HERE, THERE]
