"""tradewind policy test: what a failing case looks like, for people and for programs."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run

ROOT = Path(__file__).parents[2]
FILE = str(ROOT / "regions.yaml")
CASES = str(ROOT / "examples/policy-cases.yaml")


def cases(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "cases.yaml"
    path.write_text("version: 1\norigin: eu-west\ncases:\n" + "".join(f"  - {x}\n" for x in lines))
    return str(path)


GOOD = "{name: at home, task: {name: t}, expect: {region: eu-west}}"
BAD = (
    "{name: afar, regions: {eu-west: {wait: 10s}}, task: {name: t}, "
    "expect: {region: us-east, rule: gpu, excluded: {eu-west: down}, share: {ap-south: '< 5%'}}}"
)


def test_the_cases_of_the_examples_hold(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("policy", "test", FILE, CASES) == 0
    said = capsys.readouterr()
    assert said.err == ""
    *passed, last = said.out.splitlines()
    assert all(line.startswith("✓ ") for line in passed)
    assert last == f"{len(passed)} cases passed"


def test_a_case_that_fails_shows_what_it_wanted_what_it_got_and_why(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cases(tmp_path, GOOD, BAD)
    assert run("policy", "test", FILE, path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["✓ at home", f"✗ afar  {path}:5"]
    shown = [line.split() for line in lines]
    assert ["expect", "wanted", "got"] in shown
    assert ["rule", "gpu", "spill"] in shown
    assert ["excluded", "eu-west", "down", "not", "excluded"] in shown
    assert any(
        line[:3] == ["region", "us-east", "us-east"] and "ap-south" in line for line in shown
    )
    assert any(line[:4] == ["share", "ap-south", "<", "5%"] for line in shown)
    (chosen,) = (line for line in shown if line[:1] == ["▸"])
    assert chosen[1] == "us-east"
    assert lines[-1] == "1 of 2 cases failed"


def test_a_refusal_that_was_not_wanted_says_what_a_caller_would_hear(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cases(
        tmp_path,
        "{name: a, regions: {eu-west: {health: down}}, "
        "task: {name: t, tenant: acme-de}, expect: {region: eu-west}}",
    )
    assert run("policy", "test", FILE, path) == 1
    said = capsys.readouterr().out
    assert "refused: UNAVAILABLE" in said
    assert "no permitted region can take the task now" in said
    assert said.endswith("1 of 1 case failed\n")


def test_programs_get_every_case_with_its_shares_and_differences(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("policy", "test", FILE, cases(tmp_path, GOOD, BAD), "--json") == 1
    shown = json.loads(capsys.readouterr().out)
    assert (shown["passed"], shown["failed"]) == (1, 1)
    good, bad = shown["results"]
    assert (good["name"], good["line"], good["passed"]) == ("at home", 4, True)
    assert good["shares"] == {"eu-west": 1.0}
    assert (good["rule"], good["refused"]) == ("home", None)
    assert [each["of"] for each in bad["differences"]] == [
        "region",
        "rule",
        "excluded eu-west",
        "share ap-south",
    ]
    assert sum(bad["shares"].values()) == pytest.approx(1)


def test_a_region_that_is_in_for_want_of_a_better_one_is_not_excluded(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = ", ".join(f"{name}: {{slots: 0}}" for name in ("us-east", "eu-west", "ap-south"))
    expect = "{rule: unserved, excluded: {eu-west: no live worker}}"
    path = cases(tmp_path, f"{{name: a, regions: {{{gone}}}, task: {{name: t}}, expect: {expect}}}")
    assert run("policy", "test", FILE, path) == 1
    assert "not excluded, in spite of: no live worker" in capsys.readouterr().out


@pytest.mark.parametrize("broken", ["file", "cases"])
def test_an_invalid_file_of_either_kind_names_the_place_and_exits_2(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("version: 1\nregiosn: {}\n")
    given = (str(bad), CASES) if broken == "file" else (FILE, str(bad))
    assert run("policy", "test", *given) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"Error: {bad}:2:1: regiosn: unknown key" in said.err


def test_names_of_cases_cannot_steer_the_terminal(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = json.dumps(HOSTILE)
    path = cases(tmp_path, GOOD.replace("at home", name), BAD.replace("afar", f"{name}"))
    path_twice = Path(path)
    path_twice.write_text(path_twice.read_text().replace(name, json.dumps("x" + HOSTILE), 1))
    assert run("policy", "test", FILE, path) == 1
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "[red]not[/red]" in said
