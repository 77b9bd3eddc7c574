"""What an operator reads when something is missing: one sentence, the documented code."""

import asyncio
import os
import re
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.redis_server import SERVER_VARIABLE

FAILED, WRONG_USAGE = 1, 2
_PATIENCE_S = 40

APPS = {
    "missing.py": "import no_such_module\n",
    "raises.py": "x = 1\nraise ValueError('boom\\nand boom')\n",
    "exits.py": "raise SystemExit('leaving')\n",
    "syntax.py": "def f(:\n",
    "empty.py": "x = 1\n",
    "other.py": "app = object()\n",
    "fine.py": "from tradewind import App\napp = App()\n@app.task('a')\nasync def a(ctx): ...\n",
}


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    out: str
    err: str


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server((LOOPBACK, 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a good file, and apps of all kinds."""
    (port,) = free_ports(1)
    (tmp_path / "regions.yaml").write_text(
        f"version: 1\nregions:\n  one: {{redis: 'redis://{LOOPBACK}:{port}', residency: [eu]}}\n"
    )
    for name, text in APPS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


async def tradewind(home: Path, *arguments: str, **env: str) -> Said:
    command = [sys.executable, "-m", "tradewind.cli.main", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=home,
        env={**os.environ, **env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_PATIENCE_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    assert process.returncode is not None
    return Said(process.returncode, out.decode(), err.decode())


def one_sentence(said: Said) -> str:
    assert said.out == ""
    assert "Traceback" not in said.err
    lines = said.err.splitlines()
    assert len(lines) == 1, said.err
    return lines[0]


FILES = {
    "is not there": (None, r"regions\.yaml: there is no such file"),
    "is empty": ("", r"regions\.yaml:1:1: "),
    "is no YAML": ("version: 1\nregions: {one: [}\n", r"regions\.yaml:2:17: "),
    "has a key that is not known": (
        "version: 1\nregions:\n  one: {redis: 'redis://127.0.0.1:1', weigth: 3}\n",
        r"regions\.yaml:3:\d+: regions\.one\.weigth: unknown key \(did you mean weight\?\)",
    ),
    "has a key twice": (
        "version: 1\nregions:\n  one: {redis: 'redis://127.0.0.1:1'}\n  one: {redis: 'redis://h:1'}\n",
        r"regions\.yaml:4:3: .*one",
    ),
    "holds bytes that are no text": ("version: 1\n\udcff: 3\n", r"regions\.yaml"),
    "has a password in it": (
        "version: 1\nregions:\n  one: {redis: 'redis://me:s3cret@127.0.0.1:1'}\n",
        r"regions\.yaml:3:\d+: regions\.one\.redis(\.url)?: a password may not stand in the file",
    ),
}  # fmt: skip
COMMANDS = {
    "router": ["--region", "one", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"],
    "worker": ["--region", "one", "--app", "./fine.py:app"],
    "up": ["--app", "./fine.py:app"],
}


@pytest.mark.parametrize(
    ("command", "files"),
    # All read the file by the same loader: two mistakes show that they tell of them alike.
    {"router": list(FILES), "worker": list(FILES)[:2], "up": list(FILES)[:2]}.items(),
)
async def test_a_file_that_cannot_be_used_is_a_sentence_with_its_place(
    home: Path, command: str, files: list[str]
) -> None:
    for what in files:
        text, sentence = FILES[what]
        file = home / "regions.yaml"
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_bytes(text.encode(errors="surrogateescape"))
        said = await tradewind(home, command, "--config", "regions.yaml", *COMMANDS[command])
        assert re.search(sentence, one_sentence(said)), (what, said.err)
        assert "s3cret" not in said.err
        assert said.code == WRONG_USAGE, what


WORKER_APPS = {
    "a module that is not there": ("no_such_module:app", "there is no module no_such_module"),
    "a file that is not there": ("./none.py:app", "there is no file"),
    "an import that fails inside": ("./missing.py:app", "missing.py:1 with ModuleNotFoundError"),
    "a module that raises": ("./raises.py:app", "raises.py:2 with ValueError: boom and boom"),
    "a module that exits": ("./exits.py:app", "exits.py:1 with SystemExit"),
    "a syntax error": ("./syntax.py:app", "syntax.py:1 with SyntaxError"),
    "no such name in it": ("./empty.py:app", "the module has no app"),
    "something else of that name": ("./other.py:app", "app is a object, not a tradewind.App"),
    "no name at all": ("./fine.py", "write MODULE:NAME"),
}


async def test_an_app_that_cannot_be_imported_is_a_sentence(home: Path) -> None:
    arguments = ("--config", "regions.yaml", "--region", "one")
    for what, (app, sentence) in WORKER_APPS.items():
        said = await tradewind(home, "worker", *arguments, "--app", app)
        assert sentence in one_sentence(said), what
        assert said.code == WRONG_USAGE, what


async def test_up_tells_what_was_wrong_with_the_app(home: Path) -> None:
    (port,) = free_ports(1)
    said = await tradewind(home, "up", "--port", str(port), "--app", "./raises.py:app")
    assert "raises.py:2 with ValueError: boom and boom" in said.err
    assert "Traceback" not in said.err
    assert (said.code, said.out) == (WRONG_USAGE, "")


PORTS = {
    "the router's gRPC port": (
        ["router", "--config", "regions.yaml", "--region", "one", "--http", "127.0.0.1:0"],
        "--listen",
        "choose another --listen",
    ),
    "the router's HTTP port": (
        ["router", "--config", "regions.yaml", "--region", "one", "--listen", "127.0.0.1:0"],
        "--http",
        "choose another --http",
    ),
    "the worker's HTTP port": (
        ["worker", "--config", "regions.yaml", "--region", "one", "--app", "./fine.py:app"],
        "--http",
        "choose another --http",
    ),
}


@pytest.mark.parametrize(("arguments", "flag", "advice"), PORTS.values(), ids=PORTS)
async def test_a_taken_port_is_a_sentence(
    home: Path, taken: int, arguments: list[str], flag: str, advice: str
) -> None:
    said = await tradewind(home, *arguments, flag, f"{LOOPBACK}:{taken}")
    sentence = one_sentence(said)
    assert f"{LOOPBACK}:{taken}" in sentence
    assert advice in sentence
    assert said.code == FAILED


async def test_up_finds_a_taken_port_before_it_starts_anything(home: Path, taken: int) -> None:
    said = await tradewind(home, "up", "--port", str(taken))
    assert f"port {taken} is taken" in one_sentence(said)
    assert "--port" in said.err
    assert said.code == FAILED
    (home / "regions.yaml").write_text(
        f"version: 1\nregions:\n  one: {{redis: 'redis://{LOOPBACK}:{taken}'}}\n"
    )
    (port,) = free_ports(1)
    said = await tradewind(home, "up", "--port", str(port))
    assert f"port {taken} is taken" in one_sentence(said)
    assert "region one" in said.err
    assert said.code == FAILED


async def test_a_redis_server_that_is_not_there_is_a_sentence(home: Path) -> None:
    (port,) = free_ports(1)
    for named in (home / "no-such-server", home / "fine.py", home):
        said = await tradewind(home, "up", "--port", str(port), **{SERVER_VARIABLE: str(named)})
        sentence = one_sentence(said)
        assert f"{SERVER_VARIABLE} names {named}" in sentence
        assert "correct the variable or unset it" in sentence
        assert said.code == FAILED


@pytest.mark.parametrize("command", ["router", "worker"])
async def test_a_region_that_the_file_does_not_name_is_a_sentence(home: Path, command: str) -> None:
    app = ["--app", "./fine.py:app"] if command == "worker" else []
    said = await tradewind(home, command, "--config", "regions.yaml", "--region", "two", *app)
    assert one_sentence(said).endswith("regions.yaml has no region two; it has one")
    assert said.code == WRONG_USAGE
