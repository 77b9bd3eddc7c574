"""tradewind policy check and schema: for people, for programs, for editors."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tradewind.cli.up import STARTER
from tradewind.regions import json_schema

ROOT = Path(__file__).parents[2]


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


def test_policy_check_without_secrets_takes_what_is_not_here_for_granted(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "regions.yaml"
    file.write_text("version: 1\nregions:\n  a: {redis: 'redis://:${NOT_SET_HERE}@h'}\n")
    assert run("policy", "check", str(file)) == 2
    assert "environment variable NOT_SET_HERE is not set" in capsys.readouterr().err
    assert run("policy", "check", str(file), "--without-secrets") == 0
    said = capsys.readouterr().out
    assert "is valid: 1 region (a), 0 rules" in said
    assert "version unknown: secrets or addresses that it points to are not here" in said


def test_policy_schema_prints_the_schema_that_ships(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("policy", "schema") == 0
    said = capsys.readouterr()
    assert said.out == json_schema.published()
    assert json.loads(said.out)["properties"]["partitions"]["default"] == 64


def test_the_file_at_the_root_names_its_schema_for_editors() -> None:
    first, *_ = (ROOT / "regions.yaml").read_text().splitlines()
    hint, _, path = first.partition("$schema=")
    assert hint == "# yaml-language-server: "
    assert (ROOT / path).read_text() == json_schema.published()
