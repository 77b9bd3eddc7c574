"""Sends signed messages to receivers outside: Standard Webhooks over HTTP.

    webhook-id, webhook-timestamp, webhook-signature: v1, HMAC-SHA256 of id.timestamp.body

Source: github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md. Needs the extra
`tradewind[webhooks]`; only mains that have checked for it import this module.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx
from standardwebhooks import Webhook as Signer

from tradewind import __version__
from tradewind.clock import Clock
from tradewind.errors import SetupError
from tradewind.fleet import Webhook
from tradewind.limits import SECOND_MS
from worker.herald import Told

_SIDE_BY_SIDE: Final = 8  # requests under way at one receiver: a slow one costs no other its turn
_GONE: Final = 410  # "the receiver should be disabled": it never wants to hear of this again

logging.getLogger("httpx").setLevel(logging.WARNING)  # at INFO it logs addresses, which are secret


@dataclass(slots=True)
class _Lane:
    """One receiver."""

    signer: Signer
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_SIDE_BY_SIDE))
    failing: bool = False


class Webhooks:
    """Belongs to one event loop."""

    def __init__(self, clock: Clock) -> None:
        """`clock`: receivers compare the time of a message with their own. Raises SetupError."""
        self._clock = clock
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._client = _client()

    async def send(self, hook: Webhook, message_id: str, body: bytes) -> Told:
        """One try, of at most twice the hook's timeout: for a turn, and for the answer."""
        lane = self._lanes.get((hook.url, hook.secret))
        if lane is None:
            lane = self._lanes[hook.url, hook.secret] = _Lane(Signer(hook.secret))
        if lane.failing and lane.room.locked():
            return Told("retried", "the receiver does not answer others either")
        try:
            async with asyncio.timeout(hook.timeout_ms / SECOND_MS):
                await lane.room.acquire()
        except TimeoutError:
            return Told("retried", "the receiver is too slow for all that it is to hear")
        try:
            told = await self._post(lane.signer, hook, message_id, body)
        finally:
            lane.room.release()
        lane.failing = told.outcome == "retried"
        return told

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        await self._client.aclose()

    async def _post(self, signer: Signer, hook: Webhook, message_id: str, body: bytes) -> Told:
        now_s = self._clock.now_ms() // SECOND_MS
        at = datetime.fromtimestamp(now_s, UTC)
        headers = {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(now_s),
            "webhook-signature": signer.sign(message_id, at, body.decode()),
        }
        try:
            request = self._client.build_request("POST", hook.url, headers=headers, content=body)
            async with asyncio.timeout(hook.timeout_ms / SECOND_MS):
                answer = await self._client.send(request, stream=True)
                await answer.aclose()  # what it says besides is nothing to us, and may be endless
        except TimeoutError:
            return Told("retried", f"no answer in {hook.timeout_ms} ms")
        except (httpx.HTTPError, httpx.InvalidURL) as error:  # its text may quote the address
            return Told("retried", f"not reachable: {type(error).__name__}")
        if answer.is_success:
            return Told("sent")
        if answer.status_code == _GONE:
            return Told("gone", f"it answered {_GONE}")
        return Told("retried", f"it answered {answer.status_code}")


def _client() -> httpx.AsyncClient:
    """One that does what the file says, whatever a receiver or the environment would have it do.

    A redirect is not followed, and a proxy of the environment not used: they could lead a message
    out of where it may go. A cookie would be one more thing that all messages to a host share.
    """
    try:
        return httpx.AsyncClient(
            follow_redirects=False,
            trust_env=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            timeout=None,  # noqa: S113 - each message has its own, over all of its steps
            headers={"user-agent": f"tradewind/{__version__}"},
        )
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise SetupError(f"webhooks cannot be sent from here ({why}); see to httpx") from error
