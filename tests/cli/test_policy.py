"""tradewind policy check: every mistake with its place, for people and for programs."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tradewind.cli.up import STARTER


def test_policy_check_names_every_mistake_of_a_bad_file(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "regions.yaml"
    bad.write_text(
        "version: 1\nregions:\n"
        "  a: {redis: redis://127.0.0.1:1, weigth: 3}\n"
        "  b: {redis: redis://127.0.0.1:2, residency: eu}\n"
    )
    assert run("policy", "check", str(bad)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"Error: {bad}:") for line in lines)

    assert run("policy", "check", str(bad), "--json") == 2
    said = capsys.readouterr()
    assert said.err == ""
    shown = json.loads(said.out)
    assert (shown["valid"], shown["warnings"]) == (False, [])
    assert [each["line"] for each in shown["errors"]] == [3, 4]
    assert [each["key"] for each in shown["errors"]] == ["regions.a.weigth", "regions.b.residency"]


def test_policy_check_of_a_valid_file_has_its_warnings_in_json(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doubtful = tmp_path / "regions.yaml"
    doubtful.write_text(
        "version: 1\nregions:\n  a: {redis: redis://127.0.0.1:1, residency: [eu]}\n"
    )
    assert run("policy", "check", str(doubtful), "--json") == 0
    said = capsys.readouterr()
    shown = json.loads(said.out)
    assert (shown["valid"], shown["errors"]) == (True, [])
    assert any("[eu]" in warning for warning in shown["warnings"])
    assert said.err == ""


def test_policy_check_of_a_bad_file_names_line_and_column(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "regions.yaml"
    bad.write_text("version: 1\nregions:\n  a: {redis: redis://127.0.0.1:1, weigth: 3}\n")
    assert run("policy", "check", str(bad)) == 2
    assert f"{bad}:3:" in capsys.readouterr().err


def test_policy_check_of_the_built_in_file_is_clean(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("policy", "check", str(STARTER)) == 0
    assert "3 regions (us-east, eu-west, ap-south)" in capsys.readouterr().out
    assert run("policy", "check", str(STARTER), "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["regions"] == ["us-east", "eu-west", "ap-south"]
