"""The client of webhooks: what the environment and a receiver may not tell it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import certifi
import pytest

from tests.harness.receiver import SECRET
from tradewind.clock import SystemClock
from tradewind.errors import SetupError
from tradewind.fleet import Webhook
from worker.herald import Told
from worker.webhooks import Webhooks


@asynccontextmanager
async def receiver(answer: bytes) -> AsyncGenerator[tuple[Webhook, list[bytes]]]:
    """One that gives the same `answer` to everything, and the heads of what it was sent."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        url = f"http://{host}:{port}/"
        yield Webhook(url=url, secret=SECRET, residency=(), timeout_ms=5_000), heads


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALL_PROXY", "http://127.0.0.1:1"),
        ("HTTP_PROXY", "http://127.0.0.1:1"),
        ("SSL_CERT_FILE", "/nowhere"),
        ("NO_PROXY", "127.0.0.1:bad"),
    ],
)
async def test_the_environment_leads_no_message_elsewhere_and_breaks_no_client(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    webhooks = Webhooks(SystemClock())
    async with receiver(b"HTTP/1.1 204 No Content\r\n\r\n") as (hook, heads):
        assert await webhooks.send(hook, "msg_1", b"{}") == Told("sent")
    await webhooks.close()
    assert len(heads) == 1


async def test_a_receiver_gets_no_cookie_back() -> None:
    webhooks = Webhooks(SystemClock())
    answer = b"HTTP/1.1 204 No Content\r\nset-cookie: a=b; path=/\r\n\r\n"
    async with receiver(answer) as (hook, heads):
        for number in range(2):
            assert await webhooks.send(hook, f"msg_{number}", b"{}") == Told("sent")
    await webhooks.close()
    assert len(heads) == 2
    assert not any(b"cookie" in head.lower() for head in heads)


def test_a_client_that_cannot_be_made_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certifi, "where", lambda: "/nowhere/cacert.pem")
    with pytest.raises(SetupError, match="webhooks cannot be sent from here"):
        Webhooks(SystemClock())
