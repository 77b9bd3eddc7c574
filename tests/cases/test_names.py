"""Case C11, standalone: braces and odd bytes in names that callers choose."""

import asyncio
import itertools
from typing import Any

import pytest

from tests.harness.yard import Yard
from tradewind import Receipt, TaskOptions
from tradewind.client.admin import DeadFilter
from tradewind.errors import InvalidTask
from tradewind.state import State

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEXTS = {
    "an opening brace": "{",
    "a closing brace": "}",
    "empty braces": "{}",
    "braces inside": "a{b}c",
    "braces the wrong way round": "}{",
    "another partition's tag": "x}:t:{y",
    "a space": "a b",
    "a NUL": "a\x00b",
    "a line break": "a\r\nDEL b",
    "an emoji": "\N{SAILBOAT}\ufe0f",
    "a colon": "a:b",
    "two colons": "a:b:0",
    "a slash": "a/b",
    "two dots": "..",
    "the longest text": "k" * 4096,
    "a text that is too long": "k" * 4097,
}
# What a queue or a handler may be called (docs/limits.md); the world serves these.
NAMES = {"a:b", "a:b:0", "a/b", ".."}
TOO_LONG = TEXTS["a text that is too long"]


@pytest.mark.parametrize("field", ["queue", "name", "tenant", "affinity_key", "idempotency_key"])
async def test_c11_an_odd_text_works_or_is_refused_by_name(world: Yard, field: str) -> None:
    async with world.client("eu-west") as client:

        async def outcome(text: str) -> Receipt | list[str]:
            options: Any = {"queue": "a/b"} | ({field: text} if field != "name" else {})
            try:
                return await client.submit(text if field == "name" else "sleep", {}, **options)
            except InvalidTask as error:
                return [violation.field for violation in error.violations]

        outcomes = {text: await outcome(text) for text in TEXTS.values()}
        accepted = {text: it for text, it in outcomes.items() if isinstance(it, Receipt)}
        refused = {text: it for text, it in outcomes.items() if not isinstance(it, Receipt)}

        assert refused == {text: [field] for text in refused}
        match field:
            case "name":  # none of them is registered; accepted ones wait, and are not run
                assert set(accepted) == NAMES
                return
            case "queue":
                assert set(accepted) == NAMES
            case _:
                assert set(refused) == {TOO_LONG}
        ids = {text: receipt.task_id for text, receipt in accepted.items()}
        assert len(set(ids.values())) == len(ids)
        for text, task_id in ids.items():
            task = await client.wait(task_id, timeout=30)
            assert (task.state, getattr(task, field)) == (State.COMPLETED, text)
    assert world.ledger.count("start") == dict.fromkeys(ids.values(), 1)


async def test_c11_a_handler_name_with_every_permitted_sign_is_run(world: Yard) -> None:
    async with world.client("eu-west") as client:
        receipt = await client.submit("odd/name:v-1.0_x")
        task = await client.wait(receipt.task_id, timeout=30)
    assert (task.name, task.attempts) == ("odd/name:v-1.0_x", 1)
    assert world.ledger.count("start") == {receipt.task_id: 1}


async def test_c11_dead_tasks_with_odd_texts_are_listed_as_they_were_sent(world: Yard) -> None:
    texts = [text for text in TEXTS.values() if text != TOO_LONG]
    async with world.client("eu-west") as client:
        ids = {
            (
                await client.submit(
                    "fail.in",
                    {"regions": ["eu-west"], "said": text},
                    queue="a:b:0",
                    tenant=text,
                    affinity_key=text,
                    idempotency_key=text,
                    labels={text[:200]: text[:1024]},
                    pin_region="eu-west",
                    max_attempts=1,
                )
            ).task_id: text
            for text in texts
        }
        for task_id in ids:
            await world.settled(client, task_id)
        page = await client.admin.dead_tasks(
            DeadFilter(region="eu-west", queue="a:b:0"), page_size=1000
        )
        elsewhere = await client.admin.dead_tasks(DeadFilter(queue="a:b"), page_size=1000)
    listed = {task.task_id: task for task in page.tasks if task.task_id in ids}
    assert {
        task_id: (task.tenant, task.affinity_key, task.idempotency_key, dict(task.labels))
        for task_id, task in listed.items()
    } == {task_id: (text, text, text, {text[:200]: text[:1024]}) for task_id, text in ids.items()}
    assert [task for task in elsewhere.tasks if task.task_id in ids] == []


async def test_c11_names_that_differ_never_share_a_task(world: Yard) -> None:
    """Texts that read the same once they are put one after the other."""
    parts = ["a", "b", "ab", "a:b", "a:b:0", ""]
    async with world.client("eu-west") as client:
        wanted: list[TaskOptions] = [
            {"tenant": tenant, "queue": queue, "idempotency_key": key}
            for tenant, queue, key in itertools.product(parts, ["a:b", "a:b:0", ".."], parts)
            if key
        ]
        first = await asyncio.gather(*(client.submit("sleep", {}, **it) for it in wanted))
        again = await asyncio.gather(*(client.submit("sleep", {}, **it) for it in wanted))
        ids = [receipt.task_id for receipt in first]
        assert len(set(ids)) == len(wanted)
        assert [receipt.task_id for receipt in again] == ids
        assert {receipt.duplicate for receipt in again} == {True}
        for task_id, it in zip(ids, wanted, strict=True):
            task = await client.wait(task_id, timeout=30)
            assert (task.tenant, task.queue, task.idempotency_key) == tuple(it.values())
    assert world.ledger.count("start") == dict.fromkeys(ids, 1)
