"""What docs/dead-letters.md shows is what works."""

import re
import threading
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.harness.receiver import SECRET
from tradewind.clock import SystemClock
from tradewind.fleet import DeadTaskHandler, Webhook
from tradewind.regions import loads
from worker.webhooks import Webhooks

PAGE = (Path(__file__).parents[2] / "docs" / "dead-letters.md").read_text()
REGION = "version: 1\nregions: {eu: {redis: 'redis://127.0.0.1:6401', residency: [eu]}}\n"
BODY = b'{"type": "task.dead", "data": {"task_id": "06fk", "kind": "exhausted"}}'


def block(language: str, word: str) -> str:
    """The block of code of the page that holds `word`."""
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    (found,) = (text for text in blocks if word in text)
    return found


def test_the_settings_load(tmp_path: Path) -> None:
    (tmp_path / "webhook.secret").write_text(SECRET)
    text = REGION + block("yaml", "on_dead")
    fleet = loads(text, str(tmp_path / "regions.yaml"), {})
    assert fleet.queue("mail").on_dead == Webhook("https://hooks.example.org/dead", SECRET)
    assert fleet.queue("payments").on_dead == DeadTaskHandler("ops.page", "ops")
    assert fleet.queue("scratch").on_dead is None


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Of the page's receiver."""
    (tmp_path / "webhook.secret").write_text(SECRET + "\n")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    exec(block("python", "BaseHTTPRequestHandler"), names)  # noqa: S102 - that is the test
    server = HTTPServer(("127.0.0.1", 0), names["Receiver"])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


async def test_the_receiver_verifies_and_hears_repeats_once(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sender = Webhooks(SystemClock())
    hook = Webhook(url, SECRET)
    forged = Webhook(url, SECRET[:-8] + "AAAAAAA=")
    try:
        told = [await sender.send(by, "msg_1", BODY) for by in (forged, hook, hook)]
    finally:
        await sender.close()
    assert [t.outcome for t in told] == ["retried", "sent", "sent"]
    assert capsys.readouterr().out == "dead: 06fk exhausted\n"
