"""What docs/policy-tools.md shows is what the commands print."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from tradewind.cli import main
from tradewind.regions.cases import ExpectSection, StateSection, TaskSection

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "policy-tools.md").read_text(encoding="utf-8")

_FILE = re.compile(r"`([a-z-]+\.yaml)`:\n```yaml\n(.*?)```\n", re.DOTALL)
_CONSOLE = re.compile(r"```console\n(.*?)```\n", re.DOTALL)


def sessions() -> Iterator[tuple[str, str]]:
    """Each command of the page, and what it shows below."""
    for block in _CONSOLE.findall(PAGE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(ROOT / "regions.yaml", tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for name, text in _FILE.findall(PAGE):
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest has one in some of its processes
    return tmp_path


def test_the_commands_of_the_page_print_what_it_shows(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    for command, shown in sessions():
        program, *arguments = command.split()
        if program == "tradewind":
            codes.append(
                main.run(
                    lambda given=arguments: main.cli.main(
                        given, prog_name="tradewind", standalone_mode=False
                    )
                )
            )
            said = capsys.readouterr()
            assert said.err + said.out == shown, command
        else:
            subprocess.run(["/bin/sh", "-c", command], cwd=place, check=True)
    assert codes == [0, 0, 1, 1]  # check, test, test of what is wrong, diff


def keys(title: str) -> set[str]:
    """The keys in the first column of the page's table that begins with `title`."""
    rows = PAGE.partition(f"| {title} |")[2].partition("\n\n")[0].splitlines()[2:]
    return {key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])}


TABLES: dict[str, tuple[set[str], type[BaseModel]]] = {
    "regions": (keys("key of a region"), StateSection),
    "expectations": (keys("key of `expect`"), ExpectSection),
    "tasks": (
        set(re.findall(r"`(\w+)`", re.findall(r"^A `task` has (.*)$", PAGE, re.MULTILINE)[0])),
        TaskSection,
    ),
}


@pytest.mark.parametrize(("told", "model"), TABLES.values(), ids=TABLES)
def test_the_page_tells_of_every_key_and_no_other(told: set[str], model: type[BaseModel]) -> None:
    assert told == set(model.model_fields)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)]+)\)", PAGE))))
def test_every_link_of_the_page_leads_somewhere(link: str) -> None:
    assert (ROOT / "docs" / link).exists()
