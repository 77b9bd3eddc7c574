"""Case C63, what exists of it: a password or a payload is never in any output."""

import asyncio
import base64
import os
import sys
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Self
from urllib.parse import quote

import pytest
import redis

from tests.cases.conftest import APP
from tests.harness.ledger import Ledger
from tests.harness.patience import until
from tests.harness.yard import Yard
from tradewind import Client
from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.leash import leashed
from tradewind.local.scratch import RedisProcess
from tradewind.state import State

USER = "canary-user"
AWKWARD = "can#ary@s3:cr/et?4711%40"
PASSWORDS = [
    pytest.param("canary-s3cret-4711", id="plain", marks=pytest.mark.long),
    pytest.param(AWKWARD, id="awkward"),
]
SECRET = "REDIS_PASSWORD"
_GRACE = ("--grace", "1")


def forms(secret: str) -> list[bytes]:
    raw = secret.encode()
    pair = f"{USER}:{secret}".encode()
    encoded = [quote(secret, safe="").encode(), quote(secret).encode(), repr(secret)[1:-1].encode()]
    return [raw, *encoded, base64.b64encode(raw), base64.b64encode(pair), raw.hex().encode()]


def config(home: Path, port: int) -> Path:
    file = home / "regions.yaml"
    file.write_text(
        "version: 1\n"
        "partitions: 16\n"
        "regions:\n"
        f"  one: {{redis: 'redis://{USER}:${{{SECRET}}}@{LOOPBACK}:{port}'}}\n"
        "health: {interval: 200ms, timeout: 1s, down_after: 1}\n"
    )
    return file


class Service:
    """`tradewind router` or `worker`, everything it prints, and what its pages say."""

    def __init__(self, home: Path, module: str, *options: str, secret: str) -> None:
        self.log = home / f"{module}.log"
        (port,) = free_ports(1)
        self.http = f"{LOOPBACK}:{port}"
        self._command = [sys.executable, "-m", "tradewind.cli.main", module]
        self._command += ["--config", str(home / "regions.yaml"), "--region", "one"]
        self._command += ["--http", self.http, *options]
        self._secret = secret
        self.seen: list[bytes] = []

    async def __aenter__(self) -> Self:
        with self.log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                *leashed(self._command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, SECRET: self._secret},
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        for name in ("cmdline", "comm"):  # what `ps` shows to everybody
            self.seen.append(_read(Path("/proc", str(self.process.pid), name)))
        self.process.terminate()
        await self.process.wait()
        self.seen.append(_read(self.log))

    async def page(self, path: str) -> int:
        """Fetch and keep a page. Gives its status, or 0 if nobody answers yet."""

        def get() -> tuple[int, bytes]:
            try:
                with urllib.request.urlopen(f"http://{self.http}{path}", timeout=5) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read()
            except OSError:
                return 0, b""

        status, text = await asyncio.to_thread(get)
        self.seen.append(text)
        return status


async def looked_at(service: Service, *, ready: bool) -> None:
    """Wait until it serves, or says that it cannot; then read every page."""
    async with service:
        wanted = 200 if ready else 503

        async def says() -> bool:
            assert service.process.returncode is None, service.log.read_text()
            return await service.page("/readyz") == wanted

        await until(says, f"/readyz says {wanted}")
        assert await service.page("/healthz") == 200
        assert await service.page("/metrics") == 200


def _read(path: Path) -> bytes:
    return path.read_bytes()


CONDITIONS = {
    "the password is right": True,
    "the password is wrong": False,
    "nobody answers": False,
}


@pytest.mark.parametrize("secret", PASSWORDS)
@pytest.mark.parametrize("condition", CONDITIONS)
async def test_c63_a_redis_password_is_in_no_output(
    own_redis: RedisProcess, tmp_path: Path, ledger: Ledger, secret: str, condition: str
) -> None:
    with redis.Redis(port=own_redis.port) as admin:
        password = secret if condition == "the password is right" else "another one"
        admin.acl_setuser(  # pyright: ignore[reportUnknownMemberType]
            USER,
            enabled=True,
            passwords=[f"+{password}"],
            keys=["*"],
            channels=["*"],
            categories=["+@all"],
        )
    port = free_ports(1)[0] if condition == "nobody answers" else own_redis.port
    config(tmp_path, port)
    router = Service(tmp_path, "router", "--listen", f"{LOOPBACK}:0", secret=secret)
    worker = Service(tmp_path, "worker", "--app", f"{APP}:app", *_GRACE, secret=secret)
    ready = CONDITIONS[condition]
    await asyncio.gather(looked_at(router, ready=ready), looked_at(worker, ready=ready))
    for service in (router, worker):
        seen = b"\n".join(service.seen)
        assert len(seen) > 1000
        assert [form for form in forms(secret) if form in seen] == []


async def test_c63_a_url_that_cannot_be_used_is_not_shown(tmp_path: Path) -> None:
    secret = AWKWARD
    file = tmp_path / "regions.yaml"
    for url in (
        f"redis://{USER}:${{{SECRET}}}@127.0.0.1:99999999",
        f"redis://{USER}:${{{SECRET}}}@:6379",
        f"${{{SECRET}}}",
        f"redis://{secret}@127.0.0.1:6379/x",
        f"redis://127.0.0.1:6379/?password={secret}",
    ):
        file.write_text(f"version: 1\nregions:\n  one: {{redis: '{url}'}}\n")
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "tradewind.cli.main", "policy", "check", str(file)],
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, SECRET: secret},
        )
        said, _ = await process.communicate()
        assert process.returncode == 2, (url, said)
        assert b"regions.yaml:3:" in said
        assert [form for form in forms(secret) if form in said] == [], url


@pytest.mark.asyncio(loop_scope="session")
async def test_c63_a_payload_is_in_no_log_and_no_metric(world: Yard) -> None:
    mark = f"canary{uuid.uuid4().hex}"
    async with world.client("eu-west") as client:
        dead = await client.submit(
            "fail.in", {"regions": list(world.regions), "said": mark}, labels={"note": mark}
        )
        assert (await world.settled(client, dead.task_id)).state is State.DEAD_LETTER
        misfit = await client.submit("sleep", {"seconds": mark}, pin_region="eu-west")
        assert (await world.settled(client, misfit.task_id)).state is State.DEAD_LETTER
        done = await client.submit("echo", {"value": mark})
        assert (await client.wait(done.task_id, timeout=30)).result == mark
        await refused_with(client, mark)
    for region in world.regions:
        assert mark.encode() not in world.said(region)
        assert mark.encode() not in await world.pages(region)


async def refused_with(client: Client, mark: str) -> None:
    with pytest.raises(Exception, match="pin_region"):
        await client.submit("echo", {"value": mark}, pin_region="nowhere")
