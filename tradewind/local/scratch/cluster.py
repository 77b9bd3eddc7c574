"""A Redis Cluster on free ports."""

import contextlib
from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path

from tradewind.local.errors import LocalSetupError
from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.redis_server import REPLICATED, ask
from tradewind.local.scratch.roles import follows
from tradewind.local.scratch.server import RedisProcess, started, wait_until

SLOTS = 16_384  # fixed by the Redis Cluster specification
_SETTLE_TIMEOUT_S = 30.0

_ARGS = (
    *("--cluster-enabled", "yes"),
    *("--cluster-node-timeout", "2000"),
    # A test that stops one primary still wants the others to serve.
    *("--cluster-require-full-coverage", "no"),
    *REPLICATED,
)


@contextlib.contextmanager
def cluster_nodes(
    data_dir: Path, primaries: int = 3, extra_args: Sequence[str] = (), *, replicas: int = 0
) -> Generator[list[RedisProcess], None, None]:
    """Run a Redis Cluster while the block runs, its slots in equal ranges.

    Gives the primaries in slot order, then the `replicas` of the first, of the second, and so on:
    with one each, the replica of nodes[i] is nodes[primaries + i]. By then every node reports
    `cluster_state:ok`, and each replica follows its primary.
    """
    args = (*_ARGS, *extra_args)
    with contextlib.ExitStack() as stack:
        nodes: list[RedisProcess] = []
        for index in range(primaries * (1 + replicas)):
            nodes.append(started(partial(_node, data_dir / f"node-{index}", args)))
            stack.callback(nodes[-1].stop)
        _join(nodes, primaries)
        _attach(nodes, primaries)
        yield nodes


def settle(nodes: Sequence[RedisProcess]) -> None:
    """Return once these nodes, of one Cluster, all serve and agree on who has which slots.

    Raises LocalSetupError if they do not.
    """
    wait_until(
        lambda: all(_is_ok(node) for node in nodes) and len({_owners(n) for n in nodes}) == 1,
        f"the nodes on ports {[node.port for node in nodes]} do not agree",
        _SETTLE_TIMEOUT_S,
    )


@contextlib.contextmanager
def cluster_processes(
    data_dir: Path, primaries: int = 3, extra_args: Sequence[str] = ()
) -> Generator[list[int], None, None]:
    """`cluster_nodes` for tests that only connect: gives the ports."""
    with cluster_nodes(data_dir, primaries, extra_args) as nodes:
        yield [node.port for node in nodes]


def _node(data_dir: Path, args: tuple[str, ...]) -> RedisProcess:
    port, bus_port = free_ports(2)
    return RedisProcess(port, data_dir, args, bus_port)


def _join(nodes: Sequence[RedisProcess], primaries: int) -> None:
    """Make them one Cluster in which the first `primaries` hold all slots."""
    bounds = [index * SLOTS // primaries for index in range(primaries + 1)]
    for epoch, (node, first, end) in enumerate(zip(nodes, bounds, bounds[1:], strict=False), 1):
        _must(
            node,
            f"CLUSTER ADDSLOTSRANGE {first} {end - 1}",
            # Distinct epochs at once: nodes born with the same one must settle it first.
            f"CLUSTER SET-CONFIG-EPOCH {epoch}",
        )
    _must(nodes[0], *(f"CLUSTER MEET {LOOPBACK} {n.port} {n.bus_port}" for n in nodes[1:]))
    wait_until(
        lambda: all(_sees_all(node, primaries) for node in nodes),
        f"the nodes on ports {[node.port for node in nodes]} form no cluster",
    )


def _attach(nodes: Sequence[RedisProcess], primaries: int) -> None:
    """Make the others replicas of the first; return once every node has heard of it.

    A primary that has not refuses them their failover.
    """
    replicas = nodes[primaries:]
    of = [nodes[index * primaries // len(replicas)] for index in range(len(replicas))]
    for replica, primary in zip(replicas, of, strict=True):
        _must(replica, f"CLUSTER REPLICATE {_id(primary)}")
    wait_until(
        lambda: all(map(follows, replicas, of)) and all(_sees(n, len(replicas)) for n in nodes),
        f"the nodes on ports {[replica.port for replica in replicas]} are no replicas",
    )


def _id(node: RedisProcess) -> str:
    return ask(node.port, "CLUSTER MYID").splitlines()[1]


def _sees(node: RedisProcess, replicas: int) -> bool:
    flags = [line.split()[2] for line in ask(node.port, "CLUSTER NODES").splitlines() if line[41:]]
    return sum("slave" in flag for flag in flags) == replicas


def _must(node: RedisProcess, *commands: str) -> None:
    replies = ask(node.port, *commands)
    if any(line.startswith("-") for line in replies.splitlines()):
        raise LocalSetupError(f"the node on port {node.port} refused {commands}: {replies.strip()}")


def _is_ok(node: RedisProcess) -> bool:
    return "cluster_state:ok" in ask(node.port, "CLUSTER INFO")


def _owners(node: RedisProcess) -> frozenset[tuple[str, ...]]:
    """Who has which slots, in the eyes of a node."""
    lines = [line.split() for line in ask(node.port, "CLUSTER NODES").splitlines()]
    return frozenset((line[0], *line[8:]) for line in lines if line[8:])


def _sees_all(node: RedisProcess, primaries: int) -> bool:
    facts = set(ask(node.port, "CLUSTER INFO").splitlines())
    wanted = {"cluster_state:ok", f"cluster_slots_ok:{SLOTS}", f"cluster_size:{primaries}"}
    return wanted <= facts
