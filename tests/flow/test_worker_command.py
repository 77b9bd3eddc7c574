"""What the command line refuses: one sentence and the exit status of the contract."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = """
version: 1
partitions: 16
regions:
  eu: {redis: redis://127.0.0.1:1, residency: [eu]}
"""
APP = "from tradewind import App\napp = App()\n@app.task('t')\ndef t() -> None: ...\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "regions.yaml").write_text(CONFIG)
    (tmp_path / "worker.py").write_text(APP)
    return tmp_path


def run(place: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    given = {"--config": "regions.yaml", "--region": "eu", "--app": "./worker.py:app"}
    given |= dict(zip(arguments[::2], arguments[1::2], strict=True))
    command = [
        sys.executable,
        "-P",
        "-m",
        "worker",
        *(part for pair in given.items() for part in pair),
    ]
    return subprocess.run(
        command, cwd=place, capture_output=True, text=True, timeout=30, check=False
    )


WITHOUT_HTTPX = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"httpx", "standardwebhooks"}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
from worker.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("on_dead", "said"),
    [
        ("{task: t}", "--app ./absent.py:app: there is no file"),
        (
            "{webhook: https://h/, secret: '${KEY}'}",
            "an on_dead webhook, and httpx is not installed: pip install 'tradewind[webhooks]'",
        ),
    ],
    ids=["a task needs no extra", "a webhook does"],
)
def test_a_webhook_without_its_extra_is_refused_at_the_start(
    place: Path, on_dead: str, said: str
) -> None:
    (place / "regions.yaml").write_text(CONFIG + f"queues: {{default: {{on_dead: {on_dead}}}}}\n")
    options = ["--config", "regions.yaml", "--region", "eu", "--app", "./absent.py:app"]
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_HTTPX, *options],
        cwd=place,
        env={"PYTHONPATH": str(ROOT), "KEY": "whsec_" + "A" * 43 + "="},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


REFUSED: dict[str, tuple[tuple[str, str], int, str]] = {
    "a missing file": (("--config", "absent.yaml"), 2, "absent.yaml"),
    "an unknown region": (
        ("--region", "mars"),
        2,
        "tradewind worker: regions.yaml has no region mars; it has eu",
    ),
    "a missing app": (("--app", "./absent.py:app"), 2, "there is no file"),
    "our own package as app": (("--app", "worker:app"), 2, "give your own file by its path"),
    "auto": (("--concurrency", "auto"), 2, "auto is not served in this release; give a number"),
    "no slots": (("--concurrency", "0"), 2, "'0' is not a whole number from 1 to"),
    "no address": (("--http", "80"), 2, "write HOST:PORT"),
    "a public address": (("--http", "0.0.0.0:0"), 2, "--insecure-bind"),
    "an endless grace": (("--grace", "inf"), 2, "is not a number of seconds"),
    "no queues": (("--queues", ","), 2, "names no queue"),
}


@pytest.mark.parametrize(("arguments", "status", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_started(
    place: Path, arguments: tuple[str, str], status: int, sentence: str
) -> None:
    ended = run(place, *arguments)
    assert (ended.returncode, sentence in ended.stderr) == (status, True), ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_port_in_use_is_one_sentence(place: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run(place, "--http", address)
    assert ended.returncode == 1
    assert ended.stderr == (
        f"tradewind worker: cannot serve HTTP on {address} (Address already in use); "
        "choose another --http\n"
    )


def test_help_shows_an_example() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "worker", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert "tradewind worker --config regions.yaml --region eu-west" in ended.stdout
