"""The small HTTP side of a process: /metrics, /healthz, /readyz, served from threads of its own.

Threads, so that a handler that blocks the event loop does not make the process look dead.
"""

import ipaddress
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from tradewind.errors import SetupError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_log = logging.getLogger(__name__)
_SOCKET_TIMEOUT_S: Final = 30.0  # a peer that sends nothing does not hold a thread for longer


@dataclass(frozen=True, slots=True)
class Response:
    """What a route answers."""

    status: HTTPStatus
    content_type: str
    body: bytes

    @classmethod
    def text(cls, status: HTTPStatus, text: str) -> "Response":
        """A line of plain text."""
        return cls(status, "text/plain; charset=utf-8", f"{text}\n".encode())


Route = Callable[[], Response]
Ready = Callable[[], tuple[bool, str]]  # could do its job right now, and if not, why not


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT or [V6]:PORT as (host, port). Port 0 takes any free one. Raises SetupError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SetupError(f"{text!r} is no address; write HOST:PORT, such as 127.0.0.1:8080")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound to `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_bind(host: str, *, insecure_bind: bool) -> None:
    """Refuse to serve beyond this machine without protection. Raises SetupError."""
    if not insecure_bind and not is_loopback(host):
        raise SetupError(
            f"{host} is not loopback and nothing protects this port yet: whoever reaches it may use"
            " it; bind to 127.0.0.1, or accept the risk with --insecure-bind",
        )


class HttpServer:
    """Serves routes on HOST:PORT from daemon threads between `start` and `stop`.

    The port is bound on construction, so that a port in use ends the start of a process, before it
    has begun to work.
    """

    def __init__(
        self,
        address: str,
        *,
        ready: Ready,
        metrics: Callable[[], bytes],
        insecure_bind: bool = False,
        routes: Mapping[str, Route] | None = None,
    ) -> None:
        """Bind. `metrics` gives Prometheus's text. Raises SetupError with one sentence."""
        host, port = parse_address(address)
        check_bind(host, insecure_bind=insecure_bind)
        self._routes: dict[str, Route] = {
            "/metrics": lambda: Response(
                HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", metrics()
            ),
            "/healthz": lambda: Response.text(HTTPStatus.OK, "alive"),
            "/readyz": lambda: _readiness(ready),
            **(routes or {}),
        }
        try:
            self._server = _server_class(host)((host, port), _QuietHandler)
        except OSError as error:
            raise SetupError(
                f"cannot serve HTTP on {address} ({error.strerror or error}); choose another --http"
            ) from error
        self._server.set_app(self._serve)
        bound = self._server.server_address
        self.host, self.port = str(bound[0]), int(bound[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.5}, name="http"
        )
        self._thread.daemon = True

    @property
    def address(self) -> str:
        """Where it listens, with the port that was taken for 0."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def route(self, path: str, route: Route) -> None:
        """Serve `path`, too; replaces what stood there."""
        self._routes[path] = route

    def start(self) -> None:
        """Serve until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port. May be called twice, and without `start`."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def _serve(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        response = self._respond(str(environ["REQUEST_METHOD"]), str(environ["PATH_INFO"]))
        headers = [
            ("Content-Type", response.content_type),
            ("Content-Length", str(len(response.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ]
        start_response(f"{response.status.value} {response.status.phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [response.body]

    def _respond(self, method: str, path: str) -> Response:
        if method not in {"GET", "HEAD"}:
            return Response.text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is served here")
        route = self._routes.get(path)
        if route is None:
            known = ", ".join(sorted(self._routes))
            return Response.text(HTTPStatus.NOT_FOUND, f"nothing here; try {known}")
        try:
            return route()
        except Exception:  # noqa: BLE001 - a broken page must not end the server
            _log.exception("an HTTP route failed", extra={"path": path})
            return Response.text(HTTPStatus.INTERNAL_SERVER_ERROR, "failed; see the log")


def _readiness(ready: Ready) -> Response:
    is_ready, why = ready()
    if is_ready:
        return Response.text(HTTPStatus.OK, why or "ready")
    return Response.text(HTTPStatus.SERVICE_UNAVAILABLE, why or "not ready")


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # Not WSGIServer's own: that one asks DNS for the name of the bound address.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - base class
        _log.debug("an HTTP connection broke", exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


def _server_class(host: str) -> type[_Server]:
    return _Server6 if ":" in host else _Server


class _QuietHandler(WSGIRequestHandler):
    timeout = _SOCKET_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        _log.debug("%s", format % args)
