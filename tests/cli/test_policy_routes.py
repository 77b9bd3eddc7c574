"""tradewind policy diff: many tasks, of few kinds, from files and from pipes."""

import io
import json
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.cli.conftest import Run
from tests.cli.test_policy_diff import OPEN, RTT, TASKS, policy
from tradewind.cli import policy_routes, progress
from tradewind.client.specs import build_spec
from tradewind.regions import loads
from tradewind.v1.task_pb2 import TaskSpec

ORIGINS = ("us-east", "eu-west", "eu-north")
MORE = RTT + "queues: {by-payload: {dedup: {by: payload}}, here: {dedup: {scope: region}}}\n"
OLD, NEW = loads(policy(more=MORE), env={}), loads(OPEN + MORE.replace(RTT, ""), env={})

# What routing, or the ledger, may look at: each task draws some of it.
ASPECTS: dict[str, tuple[Any, ...]] = {
    "queue": ("", "by-payload", "here", "unknown"),
    "labels": ({}, {"class": "pii"}, {"class": "other"}),
    "tenant": ("", "acme"),
    "residency": ((), ("eu",), ("us",)),
    "pin_region": ("", "us-east", "eu-north", "mars"),
    "affinity_key": ("", "a", "b", "c"),
    "idempotency_key": ("", "k", "l"),
    "request_id": ("", "r", "s"),
    "origin_region": ("", "us-east", "mars"),
}


def some_specs(number: int) -> list[TaskSpec]:
    chance = random.Random(7)
    specs: list[TaskSpec] = []
    for _ in range(number):
        drawn: Any = {
            key: chance.choice(values) for key, values in ASPECTS.items() if chance.random() < 0.3
        }
        given: Any = {key: value for key, value in drawn.items() if value}
        specs.append(build_spec("x", {"n": chance.randrange(3)}, given))
        specs[-1].name = chance.choice(("mail.send", "gpu.train", ""))
    return specs


def routes(specs: list[TaskSpec]) -> list[tuple[policy_routes.Route, policy_routes.Route]]:
    return [(each.before, each.after) for each in policy_routes.pairs(specs, OLD, NEW, ORIGINS)]


def test_a_task_among_many_goes_where_it_goes_alone() -> None:
    specs = some_specs(600)
    together = routes(specs)
    assert together == [route for spec in specs for route in routes([spec])]
    assert {bool(after.region) for _, after in together} == {True, False}
    assert {after.region for _, after in together} == {"", *ORIGINS}


def test_a_request_id_is_remembered_where_its_caller_is_and_keeps_no_task_from_there() -> None:
    near = ORIGINS[1:]  # to each other: either would do for the other's tasks
    specs = [build_spec("mail.send", {}, {"request_id": f"r{number}"}) for number in range(20)]
    found = [*policy_routes.pairs(specs, OLD, NEW, near)]
    assert {(each.origin, each.before.region, each.after.region) for each in found} == {
        (name, name, name) for name in near
    }


def test_tasks_that_differ_in_nothing_that_routing_looks_at_are_decided_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decided: list[object] = []

    def weigh(*given: Any, real: Callable[..., Any] = policy_routes.weigh, **more: Any) -> Any:
        decided.append(given)
        return real(*given, **more)

    monkeypatch.setattr(policy_routes, "weigh", weigh)
    tasks = [
        build_spec(name, {"number": number}, {"tenant": f"t{number}"})
        for number in range(50)
        for name in ("mail.send", "gpu.train")
    ]
    assert len(routes(tasks)) == len(tasks) * len(ORIGINS)
    assert len(decided) == 2 * 2 * len(ORIGINS)  # names, files, origins


def piped(path: Path, data: str) -> str:
    """A pipe to which somebody writes `data`."""
    os.mkfifo(path)

    def write() -> None:
        with path.open("w") as pipe:
            pipe.write(data)

    threading.Thread(target=write, daemon=True).start()
    return str(path)


def test_files_may_be_pipes(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = piped(tmp_path / "old", policy(more=RTT)), piped(tmp_path / "new", OPEN)
    tasks = piped(tmp_path / "tasks", "\n".join(map(json.dumps, TASKS)))
    assert run("policy", "diff", old, new, "--tasks", tasks) == 1
    assert "3 tasks, 9 routes" in capsys.readouterr().out

    assert run("policy", "check", piped(tmp_path / "checked", policy(more=RTT))) == 0
    case = "{name: a, task: {name: b, origin: us-east}, expect: {region: us-east}}"
    cases = piped(tmp_path / "cases", f"version: 1\ncases: [{case}]\n")
    assert run("policy", "test", piped(tmp_path / "tested", policy(more=RTT)), cases) == 0
    assert "1 case passed" in capsys.readouterr().out


def test_a_pipe_without_an_end_is_read_no_further_than_a_file_may_be(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()

    def pour() -> None:
        try:
            while True:
                os.write(writer, b"#" * 65_536)
        except BrokenPipeError:
            os.close(writer)

    pouring = threading.Thread(target=pour)
    pouring.start()
    assert run("policy", "check", f"/dev/fd/{reader}") == 2
    os.close(reader)
    pouring.join()
    assert "is larger than 1 MiB" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("quiet_s", "is_terminal", "says"),
    [(0.0, True, True), (600.0, True, False), (0.0, False, False)],
    ids=["slow, on a terminal", "quick", "slow, for a program"],
)
def test_how_far_it_is_tells(
    monkeypatch: pytest.MonkeyPatch, quiet_s: float, is_terminal: bool, says: bool
) -> None:
    drawn = io.StringIO()

    def console(**_: Any) -> Console:
        return Console(file=drawn, force_terminal=is_terminal, width=80)

    monkeypatch.setattr("tradewind.cli.progress._QUIET_S", quiet_s)
    monkeypatch.setattr("tradewind.cli.show.console", console)
    assert list(progress.watched(range(300), "routed", total=300)) == list(range(300))
    assert ("routed" in drawn.getvalue()) is says
    assert ("256/300" in drawn.getvalue()) is says
