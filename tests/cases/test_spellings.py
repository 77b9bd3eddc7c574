"""Case C18: the same meaning is the same task, whoever takes it, and only once."""

import json
import random
import uuid
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.harness.gateways import gateway
from tests.harness.yard import Yard
from tradewind import Client
from tradewind.errors import IdempotencyKeyReused

pytestmark = pytest.mark.asyncio(loop_scope="session")


def spellings(value: dict[str, object], count: int, seed: int) -> list[bytes]:
    """Texts that mean the same JSON: order of keys at all depths, white space, escapes."""
    rng = random.Random(seed)
    texts: list[bytes] = []
    while len(texts) < count:
        text = _spelt(value, rng).encode()
        assert json.loads(text) == value
        if text not in texts:
            texts.append(text)
    return texts


def _spelt(value: object, rng: random.Random) -> str:
    gap = rng.choice(["", " ", "\n\t", "\r\n  "])
    match value:
        case dict():
            members = [f"{_spelt(k, rng)}{gap}:{gap}{_spelt(v, rng)}" for k, v in value.items()]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            rng.shuffle(members)
            return "{" + gap + f"{gap},{gap}".join(members) + gap + "}"
        case list():
            items = [_spelt(item, rng) for item in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            return "[" + gap + f"{gap},".join(items) + "]"
        case str():
            return '"' + "".join(_letter(letter, rng) for letter in value) + '"'
        case bool() | None:
            return json.dumps(value)
        case _:
            return rng.choice(NUMBERS.get(repr(value), [repr(value)]))


NUMBERS = {"1.5": ["1.5", "15e-1", "0.15E+1", "1.50"], "100": ["100", "1e2", "100.0", "1E+2"]}


def _letter(letter: str, rng: random.Random) -> str:
    if rng.random() < 0.5:
        units = letter.encode("utf-16-be").hex()
        escaped = "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
        return escaped.upper().replace("\\U", "\\u") if rng.random() < 0.5 else escaped
    return json.dumps(letter, ensure_ascii=rng.random() < 0.5)[1:-1]


def meaning(mark: str) -> dict[str, object]:
    name = {"name": "J\u00fcrgen \N{SAILBOAT}", "tags": ["b", "a"], "deep": {"y": 1.5, "x": [100]}}
    return {
        "value": {
            "mark": mark,
            "who": name,
            "quote": 'a/b "c" \\ \n',
            "none": None,
            "yes": True,
        }
    }


def reordered(mark: str) -> dict[str, object]:
    changed = json.loads(json.dumps(meaning(mark)))
    changed["value"]["who"]["tags"].reverse()
    return changed


async def test_c18_spellings_of_one_object_are_one_task_at_every_router(
    world: Yard, tmp_path: Path
) -> None:
    mark = uuid.uuid4().hex
    texts = spellings(meaning(mark), 20, seed=18)
    seen: list[tuple[str, bool]] = []

    async def submit(client: Client, text: bytes) -> None:
        receipt = await client.submit(
            "echo", text, queue="once", content_type="application/json", request_id=uuid.uuid4().hex
        )
        seen.append((receipt.task_id, receipt.duplicate))

    log = tmp_path / "router.log"
    async with AsyncExitStack() as stays:
        first = await stays.enter_async_context(
            gateway(world, "eu-west", log, PYTHONHASHSEED="1", LC_ALL="C", PYTHONUTF8="0")
        )
        eu = await stays.enter_async_context(Client(first, origin_region="eu-west"))
        async with AsyncExitStack() as half:
            second = await half.enter_async_context(
                gateway(world, "us-east", log, PYTHONHASHSEED="2", LC_ALL="tr_TR.UTF-8")
            )
            us = await half.enter_async_context(Client(second, origin_region="us-east"))
            for text in texts[:10]:
                await submit(eu if len(seen) % 2 else us, text)
        second = await stays.enter_async_context(
            gateway(world, "us-east", log, PYTHONHASHSEED="3", LC_ALL="C.UTF-8")
        )
        us = await stays.enter_async_context(Client(second, origin_region="us-east"))
        for text in texts[10:]:
            await submit(eu if len(seen) % 2 else us, text)

        assert len({task_id for task_id, _ in seen}) == 1
        assert [duplicate for _, duplicate in seen] == [False] + [True] * 19
        other = spellings(reordered(mark), 2, seed=19)
        await submit(eu, other[0])
        await submit(us, other[1])
        one, two = seen[0][0], seen[-1][0]
        assert one != two
        assert seen[20:] == [(two, False), (two, True)]
        for task_id in (one, two):
            await eu.wait(task_id, timeout=30)
        kept = await us.get(one)
        assert kept.payload == texts[0]  # the handler's bytes are the first caller's own
        assert kept.result == meaning(mark)["value"]
        assert kept.fingerprint != (await us.get(two)).fingerprint
    assert world.ledger.count("start") == {one: 1, two: 1}


async def test_c18_a_fingerprint_is_the_same_for_every_spelling(world: Yard) -> None:
    """Without dedup, too: each submit is a task of its own, all with one fingerprint."""
    mark = uuid.uuid4().hex
    prints: list[str] = []
    ids: list[str] = []
    async with world.client("eu-west") as eu, world.client("us-east") as us:
        for n, text in enumerate(
            [*spellings(meaning(mark), 6, seed=1), *spellings(reordered(mark), 2, seed=1)]
        ):
            client = (eu, us)[n % 2]
            receipt = await client.submit("echo", text, content_type="application/json")
            ids.append(receipt.task_id)
            prints.append((await client.wait(receipt.task_id, timeout=30)).fingerprint)
    assert len(set(ids)) == 8
    assert len(set(prints[:6])) == 1
    assert len(set(prints[6:])) == 1
    assert prints[0] != prints[-1]


async def test_c18_a_key_accepts_every_spelling_of_its_payload_and_no_other(world: Yard) -> None:
    mark = uuid.uuid4().hex
    async with world.client("eu-west") as eu, world.client("ap-south") as ap:
        ids = {
            (
                await client.submit(
                    "echo", text, idempotency_key=mark, content_type="application/json"
                )
            ).task_id
            for text, client in zip(spellings(meaning(mark), 6, seed=2), (eu, ap) * 3, strict=True)
        }
        assert len(ids) == 1
        (task_id,) = ids
        (other,) = spellings(reordered(mark), 1, seed=2)
        for client in (eu, ap):
            with pytest.raises(IdempotencyKeyReused) as refusal:
                await client.submit(
                    "echo", other, idempotency_key=mark, content_type="application/json"
                )
            assert refusal.value.first_id == task_id
        task = await eu.wait(task_id, timeout=30)
        assert len(bytes.fromhex(task.fingerprint)) == 32
    assert world.ledger.count("start") == {task_id: 1}
