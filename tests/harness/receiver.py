"""A receiver of webhooks: a real HTTP server that verifies signatures and does as it is told."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes, ok").decode()
TAKEN, HANG = 204, 0


@dataclass(frozen=True, slots=True)
class Message:
    """One verified message."""

    id: str
    type: str
    data: dict[str, Any]
    text: str


def always(status: int) -> Callable[[Message], int]:
    """The same answer to everything."""
    return lambda _message: status


class Receiver:
    """Listens on loopback; keeps what was verified, and counts what was not."""

    def __init__(self, *, port: int = 0, answer: Callable[[Message], int] | None = None) -> None:
        """`answer` gives the status; HANG is no answer for as long as the receiver lives."""
        self.messages: list[Message] = []
        self.refused = 0
        self._answer = answer or always(TAKEN)
        self._over = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer._take(self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - of the base
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/dead"

    def ids(self) -> list[str]:
        """Of every verified message, in order."""
        return [message.id for message in self.messages]

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _take(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["content-length"]))
        if not _is_genuine(request, body):
            self.refused += 1
            status = 401
        else:
            content, name = json.loads(body), request.headers["webhook-id"]
            message = Message(name, content["type"], content["data"], body.decode())
            self.messages.append(message)
            status = self._answer(message)
        if status == HANG:
            self._over.wait()
            return
        request.send_response(status)
        if status == 307:
            request.send_header("location", self.url)
        request.send_header("content-length", "0")
        request.end_headers()


def _is_genuine(request: BaseHTTPRequestHandler, body: bytes) -> bool:
    """As the Standard Webhooks specification says, without the library that signed it."""
    name, at, signatures = (
        request.headers[f"webhook-{x}"] for x in ("id", "timestamp", "signature")
    )
    if abs(time.time() - int(at)) > 300:  # noqa: TID251 - a receiver has a clock of its own
        return False
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    mac = hmac.new(key, f"{name}.{at}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(mac).decode()}" in signatures.split(" ")
