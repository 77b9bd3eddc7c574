"""A primary with replicas, and the Sentinels that watch them."""

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import redis

from tradewind.local.errors import LocalSetupError
from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.redis_server import REPLICATED, ask
from tradewind.local.scratch.roles import follows, is_primary
from tradewind.local.scratch.server import RedisProcess, redis_process, started, wait_until

_SENTINELS, _QUORUM = 3, 2  # the smallest number of which one may die (redis.io, Sentinel)
# Until each knows all others: by default they greet every 2 s and look for replicas every 10 s.
_HASTY = "INFO-PERIOD 100 PING-PERIOD 100 PUBLISH-PERIOD 100 ASK-PERIOD 100"
# Afterwards they must be slower (sentinel.c): once a primary is down they ask replicas once a
# second, and forget within five pings what those said; and they take back a promotion that they
# have not heard of for four greetings.
_STEADY = "PING-PERIOD 500 PUBLISH-PERIOD 500"
_FAILOVER_TIMEOUT_S = 20.0
_DOWN_AFTER_MS = 1_000  # a machine with other work to do may well be silent for half of it
_NEXT_FAILOVER_MS = 2_000  # the half of it (sentinel.c)


@dataclass(slots=True)
class SentinelProcess(RedisProcess):
    """One Sentinel. What it has learnt is in its data directory, and outlives it."""

    config: str = ""  # what its file says at first

    def _arguments(self) -> list[str]:
        path = self.data_dir / "sentinel.conf"
        if not path.exists():  # it writes there what it learns
            path.write_text(f"bind {LOOPBACK}\ndir {self.data_dir.resolve()}\n{self.config}")
        return [str(path), "--sentinel", "--port", str(self.port), *self.extra_args]

    def _serves(self) -> bool:
        try:
            server = self.ask("INFO", "server")
        except (OSError, redis.RedisError):
            return False
        return str(self.data_dir.resolve()) in server["config_file"]

    def ask(self, *command: str | int) -> Any:
        """Its reply, decoded. Raises redis.RedisError."""
        client = cast("Any", redis.Redis)(host=LOOPBACK, port=self.port, decode_responses=True)
        with client:
            return client.execute_command(*command)


@dataclass(frozen=True, slots=True)
class Watched:
    """Servers of which one is primary, and what watches them."""

    service: str
    servers: Sequence[RedisProcess]
    sentinels: Sequence[SentinelProcess]

    @property
    def primary(self) -> RedisProcess:
        """Which one is, by the word of the first Sentinel that answers."""
        port = self._told_port()
        return next(server for server in self.servers if server.port == port)

    def fail_over(self) -> RedisProcess:
        """Have a replica promoted, and the others follow it. Gives the new primary.

        The former one may be dead. Raises LocalSetupError if it does not happen.
        """
        former = self.primary
        what = f"the replicas of the server on port {former.port}"
        wait_until(self._accepts_failover, f"{what} are not fit", _FAILOVER_TIMEOUT_S)
        wait_until(
            lambda: self._told_port() != former.port and is_primary(self.primary),
            f"{what} are not promoted",
            _FAILOVER_TIMEOUT_S,
        )
        now = self.primary
        try:  # the Sentinels would tell the former primary so after some seconds
            ask(former.port, f"REPLICAOF {LOOPBACK} {now.port}")
        except OSError:
            return now
        wait_until(
            lambda: self.whole() and all(_knows_all(sentinel, self) for sentinel in self.sentinels),
            f"not all follow the server on port {now.port}, or its Sentinels do not know it yet",
            _FAILOVER_TIMEOUT_S,
        )
        return now

    def whole(self) -> bool:
        """Whether all servers but the primary follow it."""
        primary = self.primary
        return all(follows(other, primary) for other in self.servers if other is not primary)

    def _told_port(self) -> int:
        for sentinel in self.sentinels:
            with contextlib.suppress(OSError, redis.RedisError):
                return int(sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service)[1])
        raise LocalSetupError("no Sentinel answers")

    def _accepts_failover(self) -> bool:
        try:
            self.sentinels[0].ask("SENTINEL", "FAILOVER", self.service)
        except redis.ResponseError:  # it has not looked at the replica lately, or is still at it
            return False
        return True


@contextlib.contextmanager
def watched_servers(
    data_dir: Path,
    replicas: int = 1,
    extra_args: Sequence[str] = (),
    *,
    service: str = "main",
    sentinel_config: str = "",
) -> Generator[Watched, None, None]:
    """Run a primary with replicas and three Sentinels while the block runs.

    By then all know each other. A silent primary is replaced after about 2 s; some seconds later
    if another one was replaced shortly before. `sentinel_config`: further lines of each
    Sentinel's file.
    """
    args = (*REPLICATED, *extra_args)
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(redis_process(data_dir / "server-0", args))
        follow = (*args, "--replicaof", f"{LOOPBACK} {primary.port}")
        others = [
            stack.enter_context(redis_process(data_dir / f"server-{number}", follow))
            for number in range(1, 1 + replicas)
        ]
        config = (
            f"sentinel monitor {service} {LOOPBACK} {primary.port} {_QUORUM}\n"
            f"sentinel down-after-milliseconds {service} {_DOWN_AFTER_MS}\n"
            f"sentinel failover-timeout {service} {_NEXT_FAILOVER_MS}\n{sentinel_config}"
        )
        sentinels: list[SentinelProcess] = []
        for number in range(_SENTINELS):
            sentinels.append(started(partial(_sentinel, data_dir / f"sentinel-{number}", config)))
            stack.callback(sentinels[-1].stop)
        watched = Watched(service, (primary, *others), sentinels)
        _introduce(watched)
        yield watched


def _sentinel(data_dir: Path, config: str) -> SentinelProcess:
    return SentinelProcess(free_ports(1)[0], data_dir, config=config)


def _introduce(watched: Watched) -> None:
    """Return once all follow the primary, and each Sentinel knows all servers and Sentinels."""
    sentinels = watched.sentinels
    for sentinel in sentinels:
        sentinel.ask("SENTINEL", "DEBUG", *_HASTY.split())
    wait_until(
        lambda: watched.whole() and all(_knows_all(sentinel, watched) for sentinel in sentinels),
        f"the Sentinels on ports {[sentinel.port for sentinel in sentinels]} are strangers",
    )
    for sentinel in sentinels:
        sentinel.ask("SENTINEL", "DEBUG", *_STEADY.split())


def _knows_all(sentinel: SentinelProcess, watched: Watched) -> bool:
    """Whether it knows of all other Sentinels, and would promote any replica."""
    others = sentinel.ask("SENTINEL", "SENTINELS", watched.service)
    replicas = [_pairs(one) for one in sentinel.ask("SENTINEL", "REPLICAS", watched.service)]
    return (
        len(others) == len(watched.sentinels) - 1
        and len(replicas) == len(watched.servers) - 1
        and all(one["flags"] == "slave" and one["master-link-status"] == "ok" for one in replicas)
    )


def _pairs(flat: Any) -> dict[str, str]:
    if isinstance(flat, dict):
        return cast("dict[str, str]", flat)
    parts = cast("list[str]", flat)
    return dict(zip(parts[::2], parts[1::2], strict=True))
