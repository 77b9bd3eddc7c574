"""The processes of a region's Redis: how each is run, and when it is ready."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tradewind.local.freeports import LOOPBACK
from tradewind.local.redis_server import (
    REPLICATED,
    SERVER_ENVIRONMENT,
    ServerBinary,
    ask,
    redis_args,
    serves,
)
from tradewind.local.store_files import directory_of, file_of
from tradewind.local.stores import SERVICE, Node, Store
from tradewind.local.supervisor import ProcessSpec

# Of a Cluster's node; the default of 15 s is a long time to wait for a failover, and a machine
# with other work to do may well be silent for seconds.
NODE_TIMEOUT_MS: Final = 5_000
_SENTINEL_TIMEOUT_S: Final = 1.0
_LINE_BYTES: Final = 512  # of its answer, which is one


def store_specs(server: ServerBinary, store: Store, home: Path, log_dir: Path) -> list[ProcessSpec]:
    """All of a region's, to be started together. `home` is its directory, laid out before."""

    def spec(node: Node, arguments: list[str], ready: Callable[[], bool]) -> ProcessSpec:
        return ProcessSpec(
            name=node.process,
            argv=[str(server.path), *arguments],
            log_path=log_dir / f"{node.process}.log",
            env=SERVER_ENVIRONMENT,
            cwd=directory_of(store, home, node),
            ready=lambda: asyncio.to_thread(ready),
        )

    def server_spec(node: Node) -> ProcessSpec:
        place = directory_of(store, home, node)
        arguments = redis_args(node.port, place, _more(store, node))
        if store.sentinels:  # whom it follows is in its file, where Sentinels have it changed
            arguments = [str(file_of(store, home, node)), *arguments]
        is_cluster = store.form.kind == "cluster"
        return spec(
            node,
            arguments,
            lambda: serves(node.port, place) and _takes_part(node.port, is_cluster=is_cluster),
        )

    watching = [
        spec(node, [str(file_of(store, home, node)), "--sentinel"], lambda n=node: _watches(n.port))
        for node in store.sentinels
    ]
    return [*map(server_spec, store.servers), *watching]


def _more(store: Store, node: Node) -> tuple[str, ...]:
    """What a server needs besides, where there are several."""
    if store.form.kind != "cluster":
        return REPLICATED if store.form.replicas else ()
    options: Mapping[str, str] = {
        "cluster-enabled": "yes",
        "cluster-port": str(node.bus_port),
        "cluster-node-timeout": str(NODE_TIMEOUT_MS),
        # Where one primary is missing, the others go on with their partitions.
        "cluster-require-full-coverage": "no",
    }
    return (
        *(part for name, value in options.items() for part in (f"--{name}", value)),
        *REPLICATED,
    )


def _takes_part(port: int, *, is_cluster: bool) -> bool:
    """Whether a server serves, in its Cluster, or follows its primary."""
    try:
        said = ask(port, "INFO replication", *(["CLUSTER INFO"] if is_cluster else []))
    except OSError:
        return False
    if is_cluster and "cluster_state:ok" not in said:
        return False
    return "role:master" in said or "master_link_status:up" in said


def _watches(port: int) -> bool:
    """Whether a Sentinel knows enough others to have a replica take over."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=_SENTINEL_TIMEOUT_S) as connection:
            connection.sendall(f"SENTINEL CKQUORUM {SERVICE}\r\n".encode())
            return connection.recv(_LINE_BYTES).startswith(b"+OK")  # a Sentinel knows no QUIT
    except OSError:
        return False
