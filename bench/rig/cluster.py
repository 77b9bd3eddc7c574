"""A Redis Cluster for one measuring, as `server.fresh` runs one server: the same settings."""

import contextlib
import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.rig.server import SETTINGS, SNAPSHOT, Server, connected, new_folder
from tradewind.local.scratch import cluster_nodes, settle

PRIMARIES = 3


@dataclass(frozen=True, slots=True)
class Cluster:
    """Running primaries in the order of their slots, without replicas."""

    servers: Sequence[Server]

    @property
    def address(self) -> str:
        """Where it is, as a region file says it."""
        places = ", ".join(f'"{server.url.removeprefix("redis://")}"' for server in self.servers)
        return f"{{cluster: [{places}]}}"

    def cpu_s(self) -> float:
        """Seconds of CPU so far, all threads of all its servers, user and system."""
        return sum(server.cpu_s() for server in self.servers)

    def save(self, target: Path) -> None:
        """Keep what it holds, a file for each server, in a new folder `target`."""
        target.mkdir()
        for server in self.servers:
            server.save(target / server.process.data_dir.name)


@contextlib.contextmanager
def fresh_cluster(home: Path, *, snapshot: Path | None = None) -> Generator[Cluster]:
    """Run a Cluster of PRIMARIES in a new folder of `home`, empty or holding a snapshot."""
    with contextlib.ExitStack() as stack:
        nodes = stack.enter_context(cluster_nodes(new_folder(home, "cluster"), PRIMARIES, SETTINGS))
        if snapshot is not None:
            # Only now: a node that finds tasks before it knows its slots takes theirs for itself.
            for node in nodes:
                node.stop()
                os.link(snapshot / node.data_dir.name, node.data_dir / SNAPSHOT)
                node.start()
            settle(nodes)
        yield Cluster([stack.enter_context(connected(node)) for node in nodes])
