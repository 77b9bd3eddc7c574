"""The matrix with real processes: kill -9 at every step of a move, and of the way back."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.flow.lab import Lab, ended_with
from tests.moves.matrix import STEPS
from tests.redis_keys import connected, wrong_counts
from tests.scripts.world import PLACE, keys_at
from tradewind import codec
from tradewind.state import State
from tradewind.task import Pointer

HERE, THERE = "eu-west", "us-east"
QUEUE = "{lease: 1s, attempts: 1, failover: {on: [exhausted], max_hops: 1}}"
DEADLY = Path(__file__).with_name("deadly_app.py")
DEATHS = [
    (f"{when} {step}", route == "again")
    for route in ("carried", "again")
    for step in STEPS[route]
    for when in ("before", "amid", "after")
]
SHORT = [("amid import_task", False)]


@pytest.mark.parametrize(
    "deaths",
    [
        pytest.param(SHORT, id="one"),
        pytest.param(DEATHS, id="all", marks=[pytest.mark.long, pytest.mark.timeout(1_800)]),
    ],
)
async def test_a_courier_killed_in_the_middle_of_a_move_leaves_one_task(
    make_lab: Callable[..., Lab],
    monkeypatch: pytest.MonkeyPatch,
    deaths: list[tuple[str, bool]],
) -> None:
    lab = make_lab(QUEUE, regions=2)
    there = await lab.worker(THERE)
    raw = {name: connected(port) for name, port in lab.ports.items()}
    task_ids: list[str] = []
    for death, is_full in deaths:
        monkeypatch.setenv("DIE", death)
        monkeypatch.setenv("FULL", str(lab.ports[THERE]) if is_full else "")
        first = await lab.worker(HERE, "--app", f"{DEADLY}:app")
        task_ids.append(await lab.submit("fail.in", {"regions": [HERE]}, partition=PLACE))
        try:
            assert await ended_with(first) == -signal.SIGKILL, death
        finally:
            raw[THERE].config_set("maxmemory", 0)
        raw[HERE].delete(keys_at().courier)  # as if its lease had run out
        successor = await lab.worker(HERE)
        await ran_once_there(lab, task_ids[-1], death)
        ended(successor)
        raw[HERE].delete(keys_at().courier)
    await settled(lab, raw[THERE], there)
    assert [wrong_counts(port) for port in lab.ports.values()] == [{}, {}]


def ended(worker: "subprocess.Popen[bytes]") -> None:
    worker.kill()
    worker.wait()


async def settled(lab: Lab, raw: Any, there: "subprocess.Popen[bytes]") -> None:
    """What no courier has settled the target does, as it would after an hour."""
    imports = keys_at().imports
    for task_id in raw.zrange(imports, 0, -1):
        raw.zadd(imports, {task_id: 1}, xx=True)
    ended(there)  # it has asked not long ago; a new one asks at once
    await lab.worker(HERE)
    await lab.worker(THERE)

    async def are_forgotten() -> bool:
        return raw.zcard(imports) == 0

    await lab.until(are_forgotten)
    assert [key for key in raw.scan_iter(f"{keys_at().prefix}imp:*") if raw.ttl(key) < 0] == []


async def ran_once_there(lab: Lab, task_id: str, death: str) -> None:
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
    assert stays == [(HERE, 1, "exhausted")], death
    assert [line.region for line in lab.lines(task_id, "start")] == [HERE, THERE], death
