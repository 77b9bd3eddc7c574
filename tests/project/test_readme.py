"""What the README shows is run as it stands there."""

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tradewind import regions
from tradewind.local.embedded import EmbeddedFleet
from tradewind.local.plan import EmbeddedOptions

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# `tasks.py`: and the like, alone or at the end of a line, and the block below it.
_FILE = re.compile(r"`(\w+\.py)`:\n```python\n(.*?)```\n", re.DOTALL)
_SHELL = re.compile(r"^\.venv/bin/tradewind ([^#\n]*)", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)]+)\)")
_MAKE = re.compile(r"^make ([a-z-]+)", re.MULTILINE)

_TARGET = "localhost:7070"


def shell_lines() -> Iterator[str]:
    for block in re.findall(r"```\n(.*?)```", README, re.DOTALL):
        yield from (line.strip() for line in _SHELL.findall(block))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in _FILE.findall(README):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


async def said(*command: str, cwd: Path, router: str) -> tuple[str, str]:
    """Run to the end, and give stdout and stderr. Fails with stderr if the command does."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={"TRADEWIND_ROUTER": router, "COLUMNS": "160"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode(), err.decode()


def fleet_of(place: Path, app: str) -> EmbeddedFleet:
    config = ROOT / "regions.yaml"
    options = EmbeddedOptions(
        config=config, app=app, data_dir=place / "data", ephemeral_ports=True, stop_grace_s=2
    )
    return EmbeddedFleet(regions.load(config), options)


async def test_the_app_and_the_client_of_the_readme_do_what_it_says(place: Path) -> None:
    fleet = fleet_of(place, f"{place / 'tasks.py'}:app")
    try:
        await fleet.start()
        await fleet.until_served()
        router = next(iter(fleet.endpoints.values())).grpc
        client = place / "client.py"
        text = client.read_text(encoding="utf-8")
        assert text.count(_TARGET) == 2
        client.write_text(text.replace(_TARGET, router), encoding="utf-8")
        out, err = await said(sys.executable, "client.py", cwd=place, router=router)
    finally:
        await fleet.stop()
    assert err == ""
    sent, rejected, report = out.splitlines()
    assert sent.startswith("eu-west {'sent_to': 'a@example.org', 'from': 'eu-west'")
    assert "'nobody' is no address" in rejected
    assert report == "b'report of 2026-08'"


async def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    from tradewind.cli.up import ECHO_APP

    fleet = fleet_of(tmp_path, ECHO_APP)
    lines = list(shell_lines())
    assert [line.split()[0] for line in lines] == ["submit", "explain", "regions"]
    try:
        await fleet.start()
        await fleet.until_served()
        router = next(iter(fleet.endpoints.values())).grpc
        for line in lines:
            command = f"exec '{sys.executable}' -m tradewind.cli.main {line}"
            out, _ = await said("/bin/sh", "-c", command, cwd=ROOT, router=router)
            assert out
    finally:
        await fleet.stop()


@pytest.mark.parametrize("target", sorted(set(_MAKE.findall(README))))
def test_every_make_target_of_the_readme_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("link", sorted(set(_LINK.findall(README))))
def test_every_link_of_the_readme_leads_somewhere(link: str) -> None:
    path, _, anchor = link.partition("#")
    assert (ROOT / path).exists()
    headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(), re.MULTILINE) if anchor else []
    slugs = [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings]
    assert not anchor or anchor in slugs
