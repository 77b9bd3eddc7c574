"""A region whose Redis wants TLS and a login of its own, on each form of Redis.

The wheel's server is built without TLS: another one is taken then, if there is one that has it.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import trustme

from tests.conftest import Kind, fleet_at
from tests.redis_keys import connected
from tests.scripts.world import a_task, outcome, record_of, stored
from tools import redis_seven
from tradewind.errors import StoreUnavailable
from tradewind.fleet import Fleet, RedisTarget, Tls
from tradewind.local.errors import LocalSetupError
from tradewind.local.freeports import free_ports
from tradewind.local.redis_server import SERVER_VARIABLE
from tradewind.local.scratch import RedisProcess, SentinelProcess, cluster_nodes, redis_process
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.store.rights import PATTERN

NONE = "no redis-server with TLS was found: install one on PATH"
USER, PASSWORD = "tradewind", "s3cret"


@dataclass(frozen=True, slots=True)
class Papers:
    """Files: who signs, and whom both sides are."""

    authority: str
    certificate: str
    key: str

    def options(self) -> dict[str, str]:
        """As redis.conf has them."""
        files = {"cert-file": self.certificate, "key-file": self.key}
        return {f"tls-{name}": path for name, path in files.items()} | {
            "tls-ca-cert-file": self.authority,
            "tls-auth-clients": "yes",
        }


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    files = Papers(*(str(tmp_path / name) for name in ("ca.pem", "cert.pem", "key.pem")))
    authority.cert_pem.write_to_path(files.authority)
    issued.cert_chain_pems[0].write_to_path(files.certificate)
    issued.private_key_pem.write_to_path(files.key)
    return files


@dataclass(frozen=True, slots=True)
class Secured:
    """A region that wants both, and the plain way in for the test."""

    fleet: Fleet
    target: RedisTarget
    port: int

    def store(self, target: RedisTarget) -> RegionStore:
        return RegionStore(replace(self.fleet.regions["eu-west"], redis=target), self.fleet)


@pytest.fixture(params=["standalone", "cluster", "sentinel"])
def secured(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    papers: Papers,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Secured]:
    kind: Kind = request.param
    (port,) = free_ports(1)
    args = flags(papers.options() | {"tls-port": str(port)})
    with ExitStack() as stack:
        try:
            server = started(stack, kind, tmp_path, args)
        except LocalSetupError as without:
            if "TLS" not in str(without):
                raise
            monkeypatch.setenv(SERVER_VARIABLE, another_server())
            server = tried(stack, kind, tmp_path, args)
        seed = sentinel(stack, tmp_path, papers, port) if kind == "sentinel" else port
        rules = f"on >{PASSWORD} ~{PATTERN} &{PATTERN} +@all".split()
        connected(server.port).execute_command("ACL", "SETUSER", USER, *rules)
        fleet = fleet_at(kind, [seed])
        target = replace(
            fleet.regions["eu-west"].redis,
            username=USER,
            password=PASSWORD,
            tls=Tls(papers.authority, papers.certificate, papers.key),
        )
        yield Secured(fleet, target, server.port)


def another_server() -> str:
    """On PATH, or the one that `make test-all` has unpacked; the test is skipped without."""
    unpacked = redis_seven.UNPACKED / "redis-server"
    found = shutil.which("redis-server") or (str(unpacked) if unpacked.exists() else None)
    return found or pytest.skip(NONE)


def tried(stack: ExitStack, kind: Kind, data_dir: Path, args: list[str]) -> RedisProcess:
    try:
        return started(stack, kind, data_dir, args)
    except LocalSetupError as without:
        if "TLS" not in str(without):
            raise
        pytest.skip(NONE)


def started(stack: ExitStack, kind: Kind, data_dir: Path, args: list[str]) -> RedisProcess:
    if kind == "cluster":
        bus = ["--tls-cluster", "yes"]
        return stack.enter_context(cluster_nodes(data_dir / "nodes", 1, [*args, *bus]))[0]
    return stack.enter_context(redis_process(data_dir / "server", args))


def sentinel(stack: ExitStack, data_dir: Path, papers: Papers, primary_port: int) -> int:
    """One that speaks TLS to everybody, and wants no login; gives its port for that."""
    plain_port, port = free_ports(2)
    options = papers.options() | {"tls-port": str(port), "tls-replication": "yes"}
    lines = [f"{name} {value}" for name, value in options.items()]
    lines += [f"sentinel monitor main 127.0.0.1 {primary_port} 1"]
    watcher = SentinelProcess(plain_port, data_dir / "sentinel", config="\n".join(lines) + "\n")
    watcher.start()
    stack.callback(watcher.stop)
    return port


def flags(options: dict[str, str]) -> list[str]:
    return [part for name, value in options.items() for part in (f"--{name}", value)]


async def refusal(store: RegionStore) -> StoreUnavailable:
    answer = await outcome(store, a_task())
    await store.close()
    assert isinstance(answer, StoreUnavailable)
    return answer


async def test_a_region_with_tls_and_a_login_is_served(secured: Secured) -> None:
    store = secured.store(secured.target)
    task = await stored(store)
    assert (await record_of(store, task.task_id)).state is State.PENDING
    await store.close()
    users = {client["user"] for client in connected(secured.port).client_list()}
    assert users <= {USER, "default"}


@pytest.mark.parametrize("secured", ["standalone", "sentinel"], indirect=True)
async def test_without_what_it_wants_it_says_what_is_wrong(secured: Secured) -> None:
    target, tls = secured.target, secured.target.tls
    assert tls is not None
    wrong = await refusal(secured.store(replace(target, password="guessed")))
    stranger = await refusal(secured.store(replace(target, tls=replace(tls, ca=""))))
    assert (wrong.cause, wrong.sent) == ("login refused", False)
    assert stranger.cause.removeprefix("of a Sentinel: ") == "its certificate is not trusted"
