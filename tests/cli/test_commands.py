"""The command line against a real grpc server: output, exit codes, and sentences on stderr."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from tests.cli.conftest import HOSTILE, HOSTILE_ID, TASK_ID, Run
from tradewind.cli.main import cli
from tradewind.local.freeports import free_ports

CLIENT_COMMANDS: dict[str, tuple[str, ...]] = {
    "submit": ("submit", "echo", "{}"),
    "get": ("get", TASK_ID),
    "watch": ("watch", TASK_ID),
    "cancel": ("cancel", TASK_ID),
    "explain": ("explain", "echo"),
    "regions": ("regions",),
    "queues": ("queues",),
    "workers": ("workers",),
    "drain": ("drain", "eu-west"),
    "cordon": ("cordon", "eu-west"),
    "activate": ("activate", "eu-west"),
    "pause": ("pause", "default"),
    "resume": ("resume", "default"),
    "dlq list": ("dlq", "list"),
    "dlq redrive": ("dlq", "redrive", "--yes"),
    "dlq purge": ("dlq", "purge", "--yes"),
}


def every_command() -> Iterator[tuple[str, ...]]:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((name, each) for each in command.commands)
        elif name not in {"router", "worker"}:  # they pass --help on to the services
            yield (name,)


@pytest.mark.parametrize("command", list(every_command()), ids=" ".join)
def test_every_command_has_help_with_an_example(
    run: Run, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*command, "--help") == 0
    text = capsys.readouterr().out
    assert "Example" in text
    assert f"tradewind {' '.join(command)}" in text.split("Example")[1]


@pytest.mark.parametrize("arguments", list(CLIENT_COMMANDS.values()), ids=list(CLIENT_COMMANDS))
def test_every_client_command_prints_json_and_a_table(
    run: Run, router: str, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments, "--router", router) == 0
    plain = capsys.readouterr().out
    assert plain
    assert "\x1b" not in plain  # no colours off a terminal
    assert run(*arguments, "--router", router, "--json") == 0
    for line in jsons(capsys.readouterr().out):
        assert isinstance(line, dict)


@pytest.mark.parametrize("arguments", list(CLIENT_COMMANDS.values()), ids=list(CLIENT_COMMANDS))
def test_no_router_is_one_sentence_and_exit_code_3(
    run: Run, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    [port] = free_ports(1)
    assert run(*arguments, "--router", f"127.0.0.1:{port}") == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "tradewind up" in said.err


def test_the_router_is_taken_from_the_environment(
    run: Run, router: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRADEWIND_ROUTER", router)
    assert run("regions") == 0


def test_an_unknown_task_is_exit_code_4(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("get", "06fk3vw2r8b1q0c4n7s9d5m2eb", "--router", router) == 4
    assert "no region knows" in capsys.readouterr().err


def test_submit_and_wait_prints_the_result_alone_on_stdout(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("submit", "echo", '{"a": 1}', "--wait", "--router", router) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {"said": "hi"}
    assert TASK_ID in said.err


def test_a_payload_may_come_from_stdin(
    run: Run, router: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 1}')))
    assert run("submit", "echo", "-", "--router", router) == 0


def test_a_file_of_tasks_is_submitted_and_refusals_are_named(
    run: Run, router: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        {"name": "echo", "args": {"n": 1}, "queue": "mail"},
        {"name": "bad"},
        {"name": "echo", "idempotency_key": "k"},
    ]
    source = tmp_path / "tasks.jsonl"
    source.write_text("\n".join(map(json.dumps, lines)) + "\n\n")

    assert run("submit", "--from", str(source), "--router", router) == 1
    said = capsys.readouterr()
    assert "2 of 3 accepted, 1 of them duplicates" in said.out
    assert "task 2: name: is bad" in said.err

    assert run("submit", "--from", str(source), "--router", router, "--json") == 1
    shown = list(jsons(capsys.readouterr().out))
    assert [("error" in each) for each in shown] == [False, True, False]


def test_with_a_name_each_line_is_a_payload(run: Run, router: str, tmp_path: Path) -> None:
    source = tmp_path / "payloads.jsonl"
    source.write_text('{"n": 1}\n{"n": 2}\n')
    assert run("submit", "echo", "--from", str(source), "--router", router) == 0


BAD_LINES = {
    "no JSON": "{",
    "no object": "[1]",
    "no name": '{"args": {}}',
    "args that are no object": '{"name": "echo", "args": [1]}',
    "an option that does not exist": '{"name": "echo", "retries": 3}',
    "an option of the wrong kind": '{"name": "echo", "labels": {"a": 1}}',
}


@pytest.mark.parametrize("line", list(BAD_LINES.values()), ids=list(BAD_LINES))
def test_a_bad_line_is_named_and_nothing_is_submitted(
    run: Run, router: str, tmp_path: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "tasks.jsonl"
    source.write_text('{"name": "echo"}\n' + line)
    assert run("submit", "--from", str(source), "--router", router) == 2
    said = capsys.readouterr()
    assert "line 2" in said.err
    assert "nothing was submitted" in said.err
    assert said.out == ""


WRONG_USAGE: dict[str, tuple[str, ...]] = {
    "no such command": ("nosuch",),
    "no such option": ("get", TASK_ID, "--nosuch"),
    "no id": ("get",),
    "no name": ("submit",),
    "a payload that is no JSON": ("submit", "echo", "{"),
    "both a payload and a file": ("submit", "echo", "{}", "--from", "x.jsonl"),
    "a file that does not exist": ("submit", "--from", "/nowhere/x.jsonl"),
    "a delay that is none": ("submit", "echo", "--delay", "soon"),
    "a label without a value": ("submit", "echo", "--label", "a"),
    "a delay without its unit": ("submit", "echo", "--delay", "5"),
    "a cause of death that is none": ("dlq", "list", "--kind", ""),
    "a priority that is none": ("submit", "echo", "--priority", "urgent"),
    "a policy that does not exist": ("policy", "check", "/nowhere/regions.yaml"),
    "regions that do not exist": ("up", "--config", "/nowhere/regions.yaml"),
}


@pytest.mark.parametrize("arguments", list(WRONG_USAGE.values()), ids=list(WRONG_USAGE))
def test_wrong_usage_is_one_sentence_and_exit_code_2(
    run: Run, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("Error: ")
    assert said.err.count("\n") == 1


def test_explain_exits_1_where_no_region_would_take_the_task(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("explain", "bad", "--router", router) == 1
    assert "nowhere" in capsys.readouterr().out


def test_explain_shows_the_chosen_region_first_and_why_not_the_others(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("explain", "echo", "--label", "data-class=pii-eu", "--router", router) == 0
    text = capsys.readouterr().out
    assert "goes to eu-west: eu-personal-data" in text
    table = text.split("why not")[1]
    assert table.index("eu-west") < table.index("us-east")
    assert "outside the fence" in table


def test_a_region_that_did_not_answer_is_named_on_stderr(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("regions", "--router", router) == 0
    assert "no answer from ap-south" in capsys.readouterr().err


def test_get_shows_where_the_task_has_been(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("get", TASK_ID, "--router", router) == 0
    text = capsys.readouterr().out
    assert "DEAD_LETTER" in text.split("left for")[1]
    assert run("get", TASK_ID, "--router", router, "--json") == 0
    [shown] = jsons(capsys.readouterr().out)
    assert shown["payload"] == {"a": 1}
    assert shown["result"] == {"said": "hi"}
    assert [hop["region"] for hop in shown["hops"]] == ["us-east", "eu-west"]


@pytest.mark.parametrize("arguments", [(), ("dlq",), ("policy",)], ids=["alone", "dlq", "policy"])
def test_without_a_command_there_is_plain_help(
    run: Run, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert capsys.readouterr().err.startswith("Usage: tradewind")


def test_a_task_that_nobody_runs_is_accepted_with_a_warning_that_names_what_is_run(
    run: Run, router: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("submit", "nosuch", "{}", "--router", router) == 0
    said = capsys.readouterr()
    assert TASK_ID in said.out
    assert "no live worker runs 'nosuch' in queue default" in said.err
    assert "echo, email.send" in said.err

    assert run("submit", "nosuch", "--queue", "mail", "--router", router, "--json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["rule"] == "unserved"
    assert "no live worker takes tasks from that queue" in said.err

    source = tmp_path / "tasks.jsonl"
    source.write_text('{"name": "nosuch"}\n{"name": "nosuch"}\n{"name": "echo"}\n')
    assert run("submit", "--from", str(source), "--router", router) == 0
    assert capsys.readouterr().err.count("no live worker runs") == 1  # once a name


def test_a_task_of_a_paused_queue_is_accepted_with_a_warning_that_says_what_ends_it(
    run: Run, router: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warning = (
        "Warning: queue paused is paused, in every region; the task is kept and waits: "
        "`tradewind resume paused` lets it start.\n"
    )
    assert run("submit", "echo", "{}", "--queue", "paused", "--wait", "--router", router) == 0
    assert warning in capsys.readouterr().err
    source = tmp_path / "tasks.jsonl"
    source.write_text('{"name": "echo", "queue": "paused"}\n' * 3)
    assert run("submit", "--from", str(source), "--router", router) == 0
    assert capsys.readouterr().err == warning


def test_waiting_for_a_file_of_tasks_prints_a_line_for_each(
    run: Run, router: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "tasks.jsonl"
    source.write_text('{"name": "echo"}\n{"name": "bad"}\n{"name": "hostile"}\n')
    assert run("submit", "--from", str(source), "--wait", "--router", router) == 1
    said = capsys.readouterr()
    done, refused, dead = said.out.splitlines()
    assert done == f'{TASK_ID}  COMPLETED in eu-west  {{"said": "hi"}}'
    assert refused == "task 2: name: is bad"
    assert dead.startswith(f"{HOSTILE_ID}  DEAD_LETTER in eu-west  rejected: bad [/foo] list[int]")
    assert "1 of 3 completed" in said.err

    assert run("submit", "--from", str(source), "--wait", "--router", router, "--json") == 1
    shown = list(jsons(capsys.readouterr().out))
    assert [each.get("task_id", "") for each in shown] == [TASK_ID, "", HOSTILE_ID]
    assert ["error" in each and bool(each["error"]) for each in shown] == [False, True, True]


HOSTILE_COMMANDS: dict[str, tuple[str, ...]] = {
    "get": ("get", HOSTILE_ID),
    "watch": ("watch", HOSTILE_ID),
    "dlq list": ("dlq", "list"),
    "submit and wait": ("submit", "hostile", "--wait"),
}


@pytest.mark.parametrize("arguments", list(HOSTILE_COMMANDS.values()), ids=list(HOSTILE_COMMANDS))
def test_what_handlers_wrote_is_shown_as_it_is_but_never_obeyed(
    run: Run, router: str, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    run(*arguments, "--router", router)
    said = "".join(capsys.readouterr())
    assert "bad [/foo] list[int], [red]not[/red] ␛[31mred␇" in said
    assert not {"\x1b", "\x07", "\x9b"} & set(said)


def test_json_keeps_what_handlers_wrote_with_control_characters_escaped(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("get", HOSTILE_ID, "--router", router, "--json") == 0
    text = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\x9b"} & set(text)
    assert json.loads(text)["error"]["message"] == HOSTILE


def test_help_imports_neither_grpc_nor_rich_nor_redis() -> None:
    code = (
        "import sys; from tradewind.cli import main\n"
        "code = main.run(lambda: main.cli.main(['--help'], standalone_mode=False))\n"
        "slow = {'grpc', 'rich', 'redis', 'pydantic', 'yaml'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr


def test_importing_tradewind_imports_nothing_that_is_not_asked_for() -> None:
    code = (
        "import sys, tradewind\n"
        "assert not {'grpc', 'pydantic', 'redis', 'yaml'} & set(sys.modules)\n"
        "tradewind.Client, tradewind.App, tradewind.TaskDead, tradewind.Priority\n"
        "assert not {'pydantic', 'redis', 'yaml', 'click', 'rich'} & set(sys.modules)\n"
        "missing = [n for n in dir(tradewind) if not hasattr(tradewind, n)]\n"
        "assert not missing, missing"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_stub_names_what_the_package_has() -> None:
    import tradewind

    stub = Path(tradewind.__file__).with_suffix(".pyi").read_text()
    named = {line.rsplit(" as ", 1)[1] for line in stub.splitlines() if " as " in line}
    assert named == set(dir(tradewind)) & named
    lazy: dict[str, Any] = vars(tradewind)["_HOME_OF"]
    assert named == lazy.keys()


@pytest.mark.parametrize("service", ["router", "worker"])
def test_a_file_in_the_working_directory_does_not_shadow_a_service(
    service: str, tmp_path: Path
) -> None:
    (tmp_path / f"{service}.py").write_text("raise SystemExit('the wrong file')\n")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tradewind.cli.main", service, "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"tradewind {service}" in done.stdout


def jsons(text: str) -> Iterator[Any]:
    """Read JSON documents that follow each other."""
    decoder = json.JSONDecoder()
    rest = text.lstrip()
    while rest:
        value, end = decoder.raw_decode(rest)
        yield value
        rest = rest[end:].lstrip()
