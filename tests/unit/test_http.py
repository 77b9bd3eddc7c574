import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from tradewind.errors import SetupError
from tradewind.http import HttpServer, Response, check_bind, parse_address


class Readiness:
    def __init__(self) -> None:
        self.answer: tuple[bool, str] = (True, "")

    def __call__(self) -> tuple[bool, str]:
        return self.answer


@pytest.fixture
def readiness() -> Readiness:
    return Readiness()


@pytest.fixture
def server(readiness: Readiness) -> Iterator[HttpServer]:
    server = HttpServer("127.0.0.1:0", ready=readiness, metrics=lambda: b"up 1\n")
    server.start()
    yield server
    server.stop()


def get(server: HttpServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{server.address}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_three_pages_are_served(server: HttpServer) -> None:
    answers = [get(server, path) for path in ("/metrics", "/healthz", "/readyz")]
    assert answers == [(200, "up 1\n"), (200, "alive\n"), (200, "ready\n")]


def test_not_ready_is_503_and_says_why(server: HttpServer, readiness: Readiness) -> None:
    readiness.answer = (False, "region eu does not answer")
    assert get(server, "/readyz") == (503, "region eu does not answer\n")


def test_an_unknown_page_names_the_known_ones(server: HttpServer) -> None:
    assert get(server, "/no") == (404, "nothing here; try /healthz, /metrics, /readyz\n")


def test_a_route_can_be_added_and_a_failing_one_ends_nothing(server: HttpServer) -> None:
    def broken() -> Response:
        raise ValueError

    server.route("/extra", lambda: Response.text(HTTPStatus.OK, "more"))
    server.route("/broken", broken)
    answers = [get(server, path) for path in ("/extra", "/broken", "/healthz")]
    assert [status for status, _ in answers] == [200, 500, 200]


def test_a_port_in_use_is_one_sentence(server: HttpServer, readiness: Readiness) -> None:
    with pytest.raises(SetupError, match=r"cannot serve HTTP on .* \(Address already in use\)"):
        HttpServer(server.address, ready=readiness, metrics=bytes)


def test_a_stopped_server_frees_its_port(readiness: Readiness) -> None:
    server = HttpServer("127.0.0.1:0", ready=readiness, metrics=bytes)
    server.stop()
    server.stop()
    with socket.socket() as again:
        again.bind(("127.0.0.1", server.port))


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "a name": ("localhost:80", ("localhost", 80)),
        "an IPv6 address in brackets": ("[::1]:8080", ("::1", 8080)),
    }.values(),
    ids=["a name", "an IPv6 address in brackets"],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", "80", "host", "host:", ":80", "host:65536", "host:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SetupError, match="write HOST:PORT"):
        parse_address(text)


def test_only_loopback_is_served_unless_the_risk_is_accepted() -> None:
    check_bind("127.0.0.1", insecure_bind=False)
    check_bind("0.0.0.0", insecure_bind=True)  # noqa: S104 - the risk is what is tested
    with pytest.raises(SetupError, match="--insecure-bind"):
        check_bind("0.0.0.0", insecure_bind=False)  # noqa: S104 - the risk is what is tested
