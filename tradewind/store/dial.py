"""How a Redis node of a region is called: one connection, made as regions.yaml says."""

import socket
from typing import Any, Final

from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
)

from tradewind.fleet import RedisTarget

CONNECT_TIMEOUT_S: Final = 3.0
CLIENT_NAME: Final = "tradewind"  # of every connection of ours, in CLIENT LIST
# What the kernel finds out by itself, also of a connection that only waits: a peer that is silent
# for 8 s is gone. By name, since not every system has all of them.
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3}
_UNANSWERED: Final = {"TCP_USER_TIMEOUT": 8_000}  # ms, of what was sent (tcp(7))


def connection(target: RedisTarget, address: str, *, login: bool = True) -> AbstractConnection:
    """A new, unconnected connection to the node at `address`, HOST:PORT or a path.

    That is its name, whatever way leads there: see RedisTarget.through. Without `login` the
    connection says nobody's name and password.
    """
    common: dict[str, Any] = {
        "username": target.username or None if login else None,
        "password": target.password or None if login else None,
        "db": target.database,
        "protocol": 2,
        "socket_timeout": None,
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "client_name": CLIENT_NAME,
        "decode_responses": False,
    }
    if target.kind == "unix":
        return UnixDomainSocketConnection(path=address, **common)
    host, _, port = target.through.get(address, address).rpartition(":")
    common |= {
        "host": host.strip("[]"),
        "port": int(port),
        "socket_keepalive": True,
        "socket_keepalive_options": {
            getattr(socket, name): value
            for name, value in (_KEEPALIVE | _UNANSWERED).items()
            if hasattr(socket, name)
        },
    }
    if target.tls is None:
        return Connection(**common)
    return SSLConnection(
        ssl_ca_certs=target.tls.ca or None,
        ssl_certfile=target.tls.cert or None,
        ssl_keyfile=target.tls.key or None,
        **common,
    )
