"""A Cluster where tests expect a server: for runs in which every region is one."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.redis_keys import CLUSTERS
from tradewind.fleet import RedisTarget
from tradewind.local.freeports import LOOPBACK
from tradewind.local.scratch import RedisProcess, cluster_nodes
from tradewind.local.scratch.server import READY_TIMEOUT_S

#: "cluster": the session's servers are Clusters of three primaries (see tools/test_all.py).
VARIABLE: Final = "TRADEWIND_TEST_REGIONS"
IS_ON: Final = os.environ.get(VARIABLE) == "cluster"


class Sharded(RedisProcess):
    """Its nodes as one server, by the first one's port; they are started and ended together."""

    def __init__(self, nodes: list[RedisProcess]) -> None:
        super().__init__(nodes[0].port, nodes[0].data_dir)
        self.nodes = nodes

    @property
    def url(self) -> str:
        """As regions.yaml spells it: a mapping."""
        addresses = ", ".join(f'"{LOOPBACK}:{node.port}"' for node in self.nodes)
        return f"{{cluster: [{addresses}]}}"

    @property
    def pid(self) -> int:
        """Of the first node."""
        return self.nodes[0].pid

    def start(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        for node in self.nodes:
            node.start(timeout_s)

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


@contextmanager
def sharded(data_dir: Path) -> Generator[RedisProcess]:
    """Three primaries for the length of a block."""
    with cluster_nodes(data_dir) as nodes:
        CLUSTERS.add(nodes[0].port)
        try:
            yield Sharded(nodes)
        finally:
            CLUSTERS.remove(nodes[0].port)


def ports_of(server: RedisProcess) -> list[int]:
    """Of all its nodes."""
    return [node.port for node in server.nodes] if isinstance(server, Sharded) else [server.port]


def target_of(server: RedisProcess) -> RedisTarget:
    """As a region of a Fleet has it."""
    kind = "cluster" if isinstance(server, Sharded) else "standalone"
    return RedisTarget(kind, tuple(f"{LOOPBACK}:{port}" for port in ports_of(server)))


def written(target: RedisTarget) -> str:
    """The same as regions.yaml spells it."""
    if target.kind == "standalone":
        return f"'redis://{target.nodes[0]}'"
    addresses = ", ".join(f"'{address}'" for address in target.nodes)
    return f"{{cluster: [{addresses}]}}"
