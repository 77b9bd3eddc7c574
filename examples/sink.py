"""The other side of the shop: a local HTTP server that takes webhooks and thumbnails.

    python -m examples.sink --port 9000 --secret s3cret --ledger deliveries.jsonl

It verifies every signature, keeps a ledger of what it took, and can be broken for one region:
requests from there get 503, as if that region's way to it were down.
"""

import argparse
import hmac
import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from examples.shop import sign

_MAX_BODY = 2_000_000


@dataclass(frozen=True, slots=True)
class Delivery:
    """Something that was taken. `subject` is the path it was sent to."""

    message_id: str
    subject: str
    region: str
    size: int


class Sink:
    """The server and its ledger. One instance may be read and broken from any thread."""

    def __init__(self, secret: str, *, port: int = 0, on_taken: Callable[[Delivery], None]) -> None:
        """Listen on a loopback port, any free one by default; serve after `start`."""
        self._secret = secret
        self._on_taken = on_taken
        self._lock = threading.Lock()
        self._deliveries: list[Delivery] = []
        self._broken_for = ""
        self.refused: Counter[str] = Counter()  # by region, or "signature"
        sink = self

        class Handler(_Handler):
            owner = sink

        self._server = _Server(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Serve, in a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def break_for(self, region: str) -> None:
        """Answer 503 to whatever comes from this region from now on; an empty name repairs it."""
        with self._lock:
            self._broken_for = region

    def deliveries(self) -> list[Delivery]:
        """Everything taken so far, oldest first."""
        with self._lock:
            return list(self._deliveries)

    def take(self, request: BaseHTTPRequestHandler, body: bytes) -> int:
        """Judge one request. Gives the status to answer with."""
        headers = request.headers
        message_id = headers.get("Webhook-Id", "")
        region = headers.get("X-Sent-From", "")
        stamp = headers.get("Webhook-Timestamp", "0")
        expected = sign(self._secret, message_id, int(stamp) if stamp.isdecimal() else 0, body)
        with self._lock:
            if not hmac.compare_digest(expected, headers.get("Webhook-Signature", "")):
                self.refused["signature"] += 1
                return 401
            if region == self._broken_for and region:
                self.refused[region] += 1
                return 503
            if request.path.startswith("/down/"):  # a customer whose endpoint is broken everywhere
                self.refused[region] += 1
                return 500
            delivery = Delivery(message_id, request.path, region, len(body))
            self._deliveries.append(delivery)
            self._on_taken(delivery)
        return 200


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512  # a whole fleet may knock at once

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    owner: Sink

    def do_POST(self) -> None:
        """Take a webhook."""
        size = int(self.headers.get("Content-Length", 0))
        status = self.owner.take(self, self.rfile.read(size)) if size <= _MAX_BODY else 413
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_PUT = do_POST  # noqa: N815 - the base's name

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """The ledger is the log."""


def main() -> None:
    """Serve until Ctrl-C, one line of JSON for each delivery."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--secret", default="")
    parser.add_argument("--fail-region", default="", help="answer 503 to this region")
    parser.add_argument("--ledger", type=Path, help="file to append to; default: standard output")
    options = parser.parse_args()

    def record(delivery: Delivery) -> None:
        line = json.dumps(asdict(delivery))
        if options.ledger is None:
            print(line, flush=True)
        else:
            with options.ledger.open("a", encoding="utf-8") as ledger:
                ledger.write(f"{line}\n")

    sink = Sink(options.secret, port=options.port, on_taken=record)
    sink.break_for(options.fail_region)
    sink.start()
    print(f"ready http={sink.url}", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        sink.close()


if __name__ == "__main__":
    main()
