"""Word of dead tasks, from real workers to a real receiver, or to a task."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flow.lab import Lab, ended_with
from tests.harness.receiver import HANG, SECRET, TAKEN, Receiver, always
from tests.redis_keys import connected
from tradewind import ids
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.store.keys import partition_keys

APP = ("--app", f"{Path(__file__).with_name('told_app.py')}:app")
PAYLOAD = {"secret": "hunter2"}
TELL = "{task: tell}"


def queue(on_dead: str, *, moved: str = "[]") -> str:
    terms = "lease: 1s, attempts: 1"
    return f"{{{terms}, failover: {{on: {moved}, max_hops: 1}}, on_dead: {on_dead}}}"


@pytest.fixture
def webhook(tmp_path: Path) -> Callable[[Receiver], str]:
    """What the file says of a receiver."""
    (tmp_path / "secret").write_text(SECRET + "\n")
    return lambda r: f"{{webhook: '{r.url}', secret_file: secret, timeout: 500ms}}"


@pytest.fixture
def receivers() -> Iterator[list[Receiver]]:
    """To be closed at the end."""
    opened: list[Receiver] = []
    yield opened
    for receiver in opened:
        receiver.close()


class Waiting:
    """What still waits to be told, past all our code."""

    def __init__(self, server: RedisProcess) -> None:
        self._client: Any = connected(server.port)
        self._keys = partition_keys(16)

    async def none(self) -> bool:
        return self.count() == 0

    def count(self) -> int:
        return sum(self._client.zcard(keys.hooks) for keys in self._keys)

    async def tried(self, task_id: str) -> bool:
        """Whether a try has failed, and was counted."""
        keys = self._keys[ids.parse(task_id).partition]
        return self._client.hexists(keys.task(task_id), "ht")


@pytest.fixture
def waiting(redis_servers: list[RedisProcess]) -> Waiting:
    return Waiting(redis_servers[0])


async def test_a_receiver_hears_once_of_each_dead_task_and_nothing_of_its_content(
    make_lab: Callable[..., Lab],
    webhook: Callable[[Receiver], str],
    receivers: list[Receiver],
    waiting: Waiting,
) -> None:
    receivers.append(receiver := Receiver())
    lab = make_lab(queue(webhook(receiver)))
    for _ in range(2):
        await lab.worker("eu-west", *APP)
    dead = [await lab.submit("die", PAYLOAD, tenant="acme") for _ in range(10)]
    for task_id in dead:
        await lab.settled(task_id)
    await lab.until(waiting.none)
    assert receiver.refused == 0
    assert sorted(m.data["task_id"] for m in receiver.messages) == sorted(dead)
    message = receiver.messages[0]
    record = await lab.record(message.data["task_id"])
    assert record is not None
    assert message.id == f"msg_{record.task_id}_{record.token}"
    assert message.type == "task.dead"
    assert (
        message.data.items()
        >= {
            "region": "eu-west",
            "queue": "default",
            "name": "die",
            "kind": "rejected",
            "attempts": 1,
            "crashes": 0,
            "hops": ["eu-west"],
            "tenant": "acme",
        }.items()
    )
    assert "hunter2" not in message.text
    assert SECRET not in lab.logs()
    assert receiver.url not in lab.logs()


async def test_a_receiver_that_was_down_hears_of_it_once_it_is_up(
    make_lab: Callable[..., Lab],
    webhook: Callable[[Receiver], str],
    receivers: list[Receiver],
    waiting: Waiting,
) -> None:
    down = Receiver()
    down.close()
    lab = make_lab(queue(webhook(down)))
    await lab.worker("eu-west", *APP)
    task_id = await lab.submit("die", PAYLOAD)
    await lab.until(lambda: waiting.tried(task_id))
    lines = [json.loads(text) for text in lab.logs().splitlines() if text.startswith("{")]
    (line,) = [line for line in lines if "tries" in line]
    assert (line["task_id"], line["queue"]) == (task_id, "default")
    assert (line["level"], line["reason"]) == ("warning", "not reachable: ConnectError")
    assert 2 <= line["next_try_in_s"] <= 5
    assert down.url not in lab.logs()
    receivers.append(receiver := Receiver(port=down.port))
    await lab.until(waiting.none)
    assert [m.data["task_id"] for m in receiver.messages] == [task_id]


async def test_a_receiver_that_hangs_delays_no_task(
    make_lab: Callable[..., Lab],
    webhook: Callable[[Receiver], str],
    receivers: list[Receiver],
    waiting: Waiting,
) -> None:
    receivers.append(receiver := Receiver(answer=always(HANG)))
    lab = make_lab(queue(webhook(receiver)))
    await lab.worker("eu-west", *APP, "--concurrency", "2")
    dead = [await lab.submit("die", PAYLOAD) for _ in range(20)]
    for task_id in dead:
        await lab.settled(task_id)

    async def heard() -> bool:
        return len(receiver.messages) > 0

    await lab.until(heard)
    work = [await lab.submit("work", {}) for _ in range(20)]
    for task_id in work:
        assert (await lab.ended(task_id)).state is State.COMPLETED
    assert waiting.count() == len(dead)


async def test_a_worker_killed_before_it_could_note_the_answer_tells_again_by_the_same_id(
    make_lab: Callable[..., Lab],
    webhook: Callable[[Receiver], str],
    receivers: list[Receiver],
    waiting: Waiting,
) -> None:
    victims: list[int] = []

    def kill_the_first(_message: Any) -> int:
        if victims:
            os.kill(victims.pop(), signal.SIGKILL)
            return HANG
        return TAKEN

    receivers.append(receiver := Receiver(answer=kill_the_first))
    lab = make_lab(queue(webhook(receiver)))
    victim = await lab.worker("eu-west", *APP)
    victims.append(victim.pid)
    task_id = await lab.submit("die", PAYLOAD)
    assert await ended_with(victim) == -signal.SIGKILL
    assert waiting.count() == 1
    await lab.worker("eu-west", *APP)
    await lab.until(waiting.none)
    record = await lab.record(task_id)
    assert record is not None
    assert receiver.ids() == [f"msg_{task_id}_{record.token}"] * 2


async def test_a_task_that_is_redriven_first_is_told_of_only_when_it_dies_again(
    make_lab: Callable[..., Lab],
    webhook: Callable[[Receiver], str],
    receivers: list[Receiver],
    waiting: Waiting,
) -> None:
    down = Receiver()
    down.close()
    lab = make_lab(queue(webhook(down)))
    first = await lab.worker("eu-west", *APP)
    task_id = await lab.submit("die", PAYLOAD)
    before = await lab.settled(task_id)
    await lab.until(lambda: waiting.tried(task_id))
    first.terminate()
    assert await ended_with(first) == 0
    receivers.append(receiver := Receiver(port=down.port))
    assert await lab.stores["eu-west"].redrive(task_id, before.epoch)
    assert waiting.count() == 0
    await lab.worker("eu-west", *APP)
    after = await lab.settled(task_id)
    await lab.until(waiting.none)
    assert after.token > before.token
    assert receiver.ids() == [f"msg_{task_id}_{after.token}"]


async def test_a_task_is_run_once_for_each_dead_one_beside_it(
    make_lab: Callable[..., Lab], waiting: Waiting
) -> None:
    lab = make_lab(queue(TELL))
    for _ in range(2):
        await lab.worker("eu-west", *APP)
    dead = [await lab.submit("die", PAYLOAD, tenant="acme") for _ in range(10)]
    for task_id in dead:
        await lab.settled(task_id)
    await lab.until(waiting.none)

    async def told() -> bool:
        return len(lab.lines(event="start")) >= 2 * len(dead)

    await lab.until(told)
    runs = [line for line in lab.lines(event="start") if line.task_id not in dead]
    tellers = [await lab.ended(line.task_id) for line in runs]
    assert sorted(record.result.decode() for record in tellers) == sorted(f'"{d}"' for d in dead)
    assert {ids.parse(r.task_id).partition for r in tellers} == {
        ids.parse(task_id).partition for task_id in dead
    }


async def test_nobody_is_told_of_the_death_of_a_task_that_told_of_another(
    make_lab: Callable[..., Lab], waiting: Waiting
) -> None:
    lab = make_lab(queue("{task: tell.badly}"))
    await lab.worker("eu-west", *APP)
    task_id = await lab.submit("die", PAYLOAD)

    async def both_have_run() -> bool:
        return len(lab.lines(event="start")) == 2

    await lab.until(both_have_run)
    (teller,) = (line.task_id for line in lab.lines(event="start") if line.task_id != task_id)
    assert (await lab.settled(teller)).state is State.DEAD_LETTER
    await lab.until(waiting.none)
    # A task that is stored starts before a later one of its partition ends.
    place = ids.parse(task_id).partition
    await lab.ended(await lab.submit("work", {}, partition=place))
    assert len(lab.lines(event="start")) == 3


async def test_only_the_region_where_a_task_is_dead_for_good_tells_of_it(
    make_lab: Callable[..., Lab], webhook: Callable[[Receiver], str], receivers: list[Receiver]
) -> None:
    receivers.append(receiver := Receiver())
    lab = make_lab(queue(webhook(receiver), moved="[exhausted]"), regions=2)
    await asyncio.gather(*(lab.worker(region, *APP) for region in lab.stores))
    task_id = await lab.submit("fail", PAYLOAD)
    await lab.settled(task_id, "us-east")

    async def heard() -> bool:
        return len(receiver.messages) > 0

    await lab.until(heard)
    (message,) = receiver.messages
    facts = {key: message.data[key] for key in ("task_id", "region", "kind", "hops")}
    assert facts == {
        "task_id": task_id,
        "region": "us-east",
        "kind": "exhausted",
        "hops": ["eu-west", "us-east"],
    }
