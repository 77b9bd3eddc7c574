"""Another policy file while a worker runs: it takes all of it, or goes on with the old one."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.flow.lab import Lab, ended_with
from tests.flow.test_worker_moves import QUEUE, final
from tradewind import codec
from tradewind.state import State

TOLD = ("--app", f"{Path(__file__).with_name('told_app.py')}:app")
Worker = subprocess.Popen[bytes]


async def reload(lab: Lab, workers: list[Worker], text: str, *, says: str = "is in force") -> None:
    """Replace the file, and wait until every worker says so."""
    before = lab.logs().count(says)
    lab.config.write_text(text)
    for worker in workers:
        worker.send_signal(signal.SIGHUP)

    async def all_have() -> bool:
        return lab.logs().count(says) >= before + len(workers)

    await lab.until(all_have)


async def queues_of(lab: Lab) -> set[tuple[str, ...]]:
    """What each live worker says that it serves."""
    workers = await lab.stores["eu-west"].workers()
    return {worker.heartbeat.queues for worker in workers}


async def test_a_fence_that_narrows_keeps_what_dies_after_it(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(QUEUE.format(hops=1), regions=2)
    workers = [await lab.worker(region) for region in ("eu-west", "us-east")]
    moved = await final(lab, await lab.submit("fail.in", {"regions": ["eu-west"]}))
    assert (moved.state, moved.region) == (State.COMPLETED, "us-east")

    fence = "rules: [{name: at-home, residency: [eu]}]\n"
    await reload(lab, workers, lab.config.read_text() + fence)

    stays = await final(lab, await lab.submit("fail.in", {"regions": ["eu-west"]}))
    assert (stays.state, stays.region) == (State.DEAD_LETTER, "eu-west")
    assert codec.hops(stays.hops) == []


async def test_a_region_that_comes_into_the_file_takes_dead_tasks(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab(QUEUE.format(hops=1), regions=2)
    whole = lab.config.read_text()
    alone = "".join(line for line in whole.splitlines(True) if "us-east" not in line)
    there = await lab.worker("us-east")
    lab.config.write_text(alone)
    here = await lab.worker("eu-west")
    kept = await final(lab, await lab.submit("fail.in", {"regions": ["eu-west"]}))
    assert (kept.state, kept.region) == (State.DEAD_LETTER, "eu-west")
    # The one whose own region was missing for a moment has gone on with the file before.
    await reload(lab, [here], whole)

    moved = await final(lab, await lab.submit("fail.in", {"regions": ["eu-west"]}))

    assert (moved.state, moved.region) == (State.COMPLETED, "us-east")
    assert there.poll() is None


async def test_queues_follow_the_file_where_none_were_chosen(lab: Lab) -> None:
    workers = [await lab.worker(), await lab.worker("eu-west", "--queues", "default")]
    more = lab.config.read_text() + "  mail: {}\n"

    async def serve(*expected: tuple[str, ...]) -> None:
        async def as_expected() -> bool:
            return await queues_of(lab) == set(expected)

        await lab.until(as_expected)

    await serve(("default",))
    await reload(lab, workers, more)
    await serve(("default", "mail"), ("default",))
    # Not by halves: a worker stays with the Redis that it began with.
    elsewhere = more.replace("127.0.0.1", "localhost").replace("mail", "sms")
    await reload(lab, workers, elsewhere, says="cannot be used")
    assert "this worker runs the tasks of the Redis it began with" in lab.logs()
    await serve(("default", "mail"), ("default",))
    await reload(lab, workers, more + "  sms: {}\n")
    await serve(("default", "mail", "sms"), ("default",))

    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        assert await ended_with(worker) == 0


async def test_somebody_is_told_of_dead_tasks_once_the_file_says_so(
    make_lab: Callable[..., Lab],
) -> None:
    terms = "{lease: 1s, attempts: 1, failover: {on: []}"
    lab = make_lab(f"{terms}}}")
    worker = await lab.worker("eu-west", *TOLD)
    unheard = await lab.submit("die", {"secret": "x"})
    await lab.settled(unheard)

    text = lab.config.read_text().replace(f"{terms}}}", f"{terms}, on_dead: {{task: tell}}}}")
    await reload(lab, [worker], text)

    heard = await lab.submit("die", {"secret": "y"})
    await lab.settled(heard)

    async def is_told() -> bool:
        return any(line.task_id not in {unheard, heard} for line in lab.lines(event="start"))

    await lab.until(is_told)
    told = [line for line in lab.lines(event="start") if line.task_id not in {unheard, heard}]
    assert [json.loads((await lab.ended(line.task_id)).result) for line in told] == [heard]
