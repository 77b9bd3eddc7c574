"""Case C23: a task that kills its worker, and then the next one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.scale import Scale, short_and_full
from tests.flow.lab import Lab
from tests.redis_keys import wrong_counts
from tradewind.local.scratch import RedisProcess
from tradewind.state import State

APP = Path(__file__).with_name("poison_app.py")
WORKERS = 3
MAX_CRASHES = 3
POISONS = ("poison.kill", "poison.memory", "poison.kill.all")


@pytest.mark.timeout(150)
@short_and_full(5, timeout_s=400)
async def test_c23_poison_dies_of_its_crashes_and_nobody_else_does(
    make_lab: Callable[..., Lab], redis_servers: list[RedisProcess], scale: Scale
) -> None:
    lab = make_lab(scale.queue)
    lab.patience_s = 100
    pool = lab.start(
        "eu-west", "--app", f"{APP}:app", "--processes", str(WORKERS), "--concurrency", "10"
    )
    each = 100 if scale.full else 30
    good: list[str] = []
    for name in POISONS:
        good += [await lab.submit("good", {"seconds": 0.3}) for _ in range(each // 2)]
        poison = await lab.submit(name, {})
        good += [await lab.submit("good", {"seconds": 0.3}) for _ in range(each // 2)]
        record = await lab.ended(poison)  # one after the other: none is blamed for another
        assert (record.state, record.death) == (State.DEAD_LETTER, "crashed"), name
        assert (record.crashes, record.attempts) == (MAX_CRASHES, 0), name
        assert record.failure is not None
        assert record.failure.kind == "worker-lost"
        assert MAX_CRASHES <= len(lab.lines(poison, "start")) <= MAX_CRASHES + 1, name
    spared = [await lab.ended(task_id) for task_id in good]
    assert {record.state for record in spared} == {State.COMPLETED}, [
        r for r in spared if r.state is not State.COMPLETED
    ]
    assert all(lab.lines(task_id, "done") for task_id in good)
    assert any(r.crashes for r in spared), "none shared a process with poison: this shows nothing"

    async def all_live() -> bool:
        workers = await lab.stores["eu-west"].workers()
        return len([w for w in workers if w.age_ms < 2_000]) == WORKERS

    await lab.until(all_live)
    assert pool.poll() is None
    assert not wrong_counts(redis_servers[0].port)


@pytest.mark.long
@pytest.mark.timeout(150)
@short_and_full(5, timeout_s=400)
async def test_c23_poison_that_comes_at_once_ends_all_the_same(
    make_lab: Callable[..., Lab], scale: Scale
) -> None:
    """Each may take another along before it has begun, so their starts have no lower bound."""
    lab = make_lab(scale.queue)
    lab.patience_s = 100
    lab.start("eu-west", "--app", f"{APP}:app", "--processes", str(WORKERS), "--concurrency", "10")
    good = [await lab.submit("good", {"seconds": 0.3}) for _ in range(100 if scale.full else 30)]
    poison = {name: await lab.submit(name, {}) for name in POISONS}
    ended = {name: await lab.ended(task_id) for name, task_id in poison.items()}
    spared = [await lab.ended(task_id) for task_id in good]
    assert {record.state for record in spared} == {State.COMPLETED}, [
        r for r in spared if r.state is not State.COMPLETED
    ]
    for name, record in ended.items():
        assert (record.death, record.crashes) == ("crashed", MAX_CRASHES), name
        assert len(lab.lines(poison[name], "start")) <= MAX_CRASHES + 1, name
