"""The JSON Schema of regions.yaml says what the loader says, as far as one key can tell."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.unit.regions.files import FILES, ROOT, TWO, one
from tests.unit.regions.test_refusals import MANY, REFUSALS
from tradewind.regions import json_schema, loads
from tradewind.regions.reader import read

# What takes more than one key to see, or a table of names.
ONLY_THE_LOADER = {
    "all weights 0",
    "an rtt of an unknown region",
    "an rtt to an unknown region",
    "an rtt to itself",
    "an unknown preferred region",
    "a preferred region outside the fence",
    "a fence that nobody has",
    "two rules of one name",
    "a rule called unserved",
    "a rule called default",
    "an order of an unknown region",
    "an order to an unknown region",
    "an order to itself",
    "no score at all",
}

SCHEMA: dict[str, Any] = json.loads(json_schema.published())


def complaints(text: str) -> list[str]:
    """What an editor would underline."""
    checker: Any = jsonschema.Draft7Validator(SCHEMA)
    return [each.message for each in checker.iter_errors(read(text, "regions.yaml").tree)]


def test_the_schema_that_ships_is_the_one_of_the_models() -> None:
    renew = "python -m tradewind.regions.json_schema > tradewind/regions/regions.schema.json"
    assert json_schema.published() == json_schema.generated(), f"renew it: {renew}"


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_of_the_repository_fits_the_schema(path: Path) -> None:
    assert complaints(path.read_text(encoding="utf-8")) == []


FITS = {
    "a cluster": one("{cluster: ['a:1', 'b:1'], username: u, password_file: f, tls: {}}"),
    "sentinels": one("{sentinel: ['a:1'], service: s}"),
    "a hook": TWO + "queues: {a: {on_dead: {webhook: 'https://h', secret: '${S}', timeout: 5s}}}",
    "a task instead of a hook": TWO + "queues: {a: {on_dead: {task: t, queue: q}}}",
    "nobody is told": TWO + "queues: {a: {on_dead: {}}}",
    "a half millisecond": TWO + "rtt: {eu: {us: 0.5ms}}",
}


@pytest.mark.parametrize("text", FITS.values(), ids=FITS)
def test_the_schema_takes(text: str) -> None:
    assert complaints(text) == []


MISFITS = {
    "two addresses": one("{url: redis://h, cluster: ['a:1']}"),
    "no address": one("{username: u}"),
    "a service without sentinels": one("{cluster: ['a:1'], service: s}"),
    "both a webhook and a task": TWO + "queues: {a: {on_dead: {webhook: w, task: t}}}",
    "a queue for a webhook": TWO + "queues: {a: {on_dead: {webhook: w, queue: t}}}",
    "a secret for a task": TWO + "queues: {a: {on_dead: {task: t, secret: '${S}'}}}",
    "a duration without a unit": TWO + "health: {interval: 5}",
    "a duration of many units": TWO + "health: {interval: 1m30s}",
    "a share without its sign": TWO + "steering: {band: 0.2}",
    "an empty tls": one("{url: rediss://h, tls: ''}"),
}


@pytest.mark.parametrize("text", MISFITS.values(), ids=MISFITS)
def test_the_schema_refuses(text: str) -> None:
    assert complaints(text) != []


@pytest.mark.parametrize("name", REFUSALS)
def test_the_schema_sees_what_a_single_key_can_tell(name: str) -> None:
    assert bool(complaints(REFUSALS[name][0])) == (name not in ONLY_THE_LOADER)


def test_defaults_are_spelt_as_in_the_file_and_load_as_what_they_are() -> None:
    given: dict[str, Any] = {"version": 1, "regions": {"eu": {"redis": "redis://h"}}}
    for section in ("failover", "steering", "panic", "health"):
        given[section] = defaults(f"{section.title()}Section")
    given["regions"]["eu"] |= {"limits": defaults("LimitsSection"), "weight": 100, "cost": 0.0}
    queue = defaults("QueueSection")
    for key in ("backoff", "dedup", "retention"):
        queue[key] = defaults(f"{key.title()}Section")
    given["queues"] = {"default": queue}
    bare = loads(one("redis://h"), env={})
    spelt = loads(json.dumps(given), env={})
    assert spelt.default_queue == bare.default_queue
    assert (spelt.failover, spelt.steering, spelt.health) == (
        bare.failover,
        bare.steering,
        bare.health,
    )
    assert spelt.regions == bare.regions


def defaults(section: str) -> dict[str, Any]:
    keys: dict[str, Any] = SCHEMA["definitions"][section]["properties"]
    return {key: value["default"] for key, value in keys.items() if "default" in value}


def test_every_key_says_what_it_is() -> None:
    for name, section in {"File": SCHEMA, **SCHEMA["definitions"]}.items():
        for key, value in section["properties"].items():
            assert value["description"].endswith("."), f"{name}.{key}"


def test_many_mistakes_at_once_are_many_underlined_places() -> None:
    assert len(complaints(MANY)) >= 10
