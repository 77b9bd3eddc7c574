"""Bytes that are not UTF-8, and JSON that no parser takes, are a sentence each."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tradewind.cli.options import payload_of

NO_TEXT = "\udcff"  # what Python makes of the byte 0xff in argv and in the environment
DEEP = "[" * 200_000

ARGUMENTS: dict[str, tuple[list[str], str]] = {
    "a payload": (["submit", "echo", f'{{"a":"{NO_TEXT}"}}'], "no JSON (not UTF-8 at byte 7)"),
    "a payload to explain": (["explain", "echo", f'"{NO_TEXT}"'], "no JSON (not UTF-8 at byte 2)"),
    "a deep payload": (["submit", "echo", DEEP], "no JSON (nested too deeply)"),
    "a handler": (["submit", NO_TEXT], "cannot be sent"),
    "a queue": (["submit", "echo", "--queue", NO_TEXT], "cannot be sent"),
    "a label": (["submit", "echo", "--label", f"a={NO_TEXT}"], "not a mapping of texts"),
    "a group": (["submit", "echo", "--residency", NO_TEXT], "not a list of texts"),
    "a file": (["submit", "--from", f"/nowhere/{NO_TEXT}"], "No such file"),
    "an id": (["get", NO_TEXT], "is not UTF-8"),
    "an id to watch": (["watch", NO_TEXT], "is not UTF-8"),
    "an id to cancel": (["cancel", NO_TEXT], "is not UTF-8"),
    "a filter": (["dlq", "list", "--queue", NO_TEXT], "is not UTF-8"),
    "ids": (["dlq", "purge", NO_TEXT, "--yes"], "is not UTF-8"),
    "a region": (["workers", "--region", NO_TEXT], "is not UTF-8"),
}


@pytest.mark.parametrize(("arguments", "said"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_text_that_is_none_is_a_sentence(
    run: Run, router: str, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(*arguments, "--router", router) == 2

    errors = capsys.readouterr().err
    assert said in errors
    assert errors.count("\n") == 1


def test_so_is_a_router(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("regions", "--router", f"{NO_TEXT}:1") == 2
    assert capsys.readouterr().err.count("\n") == 1


LINES: dict[str, tuple[bytes, str]] = {
    "no UTF-8": (b'{"name": "echo", "args": {"a": "\xff"}}\n', "not UTF-8 at byte 33"),
    "UTF-16": ('{"name": "echo"}\n'.encode("utf-16"), "not UTF-8 at byte 1"),
    "a deep line": (DEEP.encode() + b"\n", "nested too deeply"),
}


@pytest.mark.parametrize(("line", "said"), LINES.values(), ids=LINES)
def test_a_line_that_is_no_text_is_named(
    run: Run,
    router: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    line: bytes,
    said: str,
) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(b'{"name": "echo"}\r\n\n' + line)

    assert run("submit", "--from", str(path), "--router", router) == 2

    errors = capsys.readouterr().err
    assert f"{path}, line 3: {said}; nothing was submitted" in errors
    assert errors.count("\n") == 1


def test_bytes_that_are_no_json_go_as_they_are() -> None:
    assert payload_of(f"a{NO_TEXT}", "application/octet-stream") == b"a\xff"
