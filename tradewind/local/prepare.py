"""What a fleet needs before it starts: a directory of its own, and free ports."""

import contextlib
import fcntl
import time
from collections.abc import Generator, Iterable
from pathlib import Path

from tradewind.fleet import Fleet
from tradewind.local.errors import LocalSetupError
from tradewind.local.freeports import free_ports, is_free, next_free_ports
from tradewind.local.plan import (
    EmbeddedOptions,
    Layout,
    RegionPorts,
    redis_ports,
    wan_pairs,
)
from tradewind.local.redis_server import serves

# HTTP ports are looked for from here on, counted from the gRPC port: 8070 beside 7070.
_HTTP_OFFSET = 1_000

# Children of a killed `tradewind up` need a moment to end and give up their ports.
_PORT_PATIENCE_S = 3.0
_PORT_POLL_S = 0.05


def choose_layout(fleet: Fleet, options: EmbeddedOptions) -> Layout:
    """Choose a port for everything. Raises LocalSetupError if one that must be free is taken."""
    names = list(fleet.regions)
    apart = options.wan_apart
    pairs = wan_pairs(fleet, home=options.wan_home, apart=apart) if options.wan else []
    if options.ephemeral_ports:
        ports = iter(free_ports(4 * len(names) + len(pairs)))
        regions = {name: RegionPorts(*(next(ports) for _ in range(4))) for name in names}
        return Layout(regions, dict(zip(pairs, ports, strict=True)), apart)
    _must_be_free(options.port, "choose another with --port")
    stores = _store_ports(fleet, options)
    reserved = {options.port, *stores.values()}
    grpc = [
        options.port,
        *_unreserved(options.port + 1, len(names) - 1, reserved),
    ]
    reserved.update(grpc)
    rest = iter(
        _unreserved(options.port + _HTTP_OFFSET, 2 * len(names) + len(pairs), reserved),
    )
    regions = {
        name: RegionPorts(stores[name], grpc_port, next(rest), next(rest))
        for name, grpc_port in zip(names, grpc, strict=True)
    }
    return Layout(regions, dict(zip(pairs, rest, strict=True)), apart)


@contextlib.contextmanager
def locked(data_dir: Path) -> Generator[None, None, None]:
    """Hold a data directory. Raises LocalSetupError if another process holds it."""
    data_dir.mkdir(parents=True, exist_ok=True)
    with (data_dir / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalSetupError(
                f"{data_dir} is in use by another `tradewind up`: stop that one, or choose another "
                "directory with --data-dir"
            ) from None
        yield


def _store_ports(fleet: Fleet, options: EmbeddedOptions) -> dict[str, int]:
    """Give the Redis ports of the file; free ones for those that are taken, if Redis may move."""
    stores = redis_ports(fleet)
    if not options.redis_may_move:
        for region, port in stores.items():
            _must_be_free(port, f"change region {region} in {options.config}")
        return stores
    taken = _still_taken(stores.values())
    if not taken:
        return stores
    for region in stores:
        _must_not_serve(stores[region], options.data_dir.resolve() / "regions" / region)
    reserved = {options.port, *stores.values()}
    others = iter(_unreserved(max(stores.values()) + 1, len(taken), reserved))
    return {name: next(others) if port in taken else port for name, port in stores.items()}


def _must_not_serve(port: int, data_dir: Path) -> None:
    # Left over from a run before: a second server must not write to the same files.
    if serves(port, data_dir):
        raise LocalSetupError(
            f"a redis-server on port {port} still uses {data_dir}: stop it, or choose another "
            "directory with --data-dir"
        )


def _must_be_free(port: int, remedy: str) -> None:
    if _still_taken([port]):
        raise LocalSetupError(
            f"port {port} is taken by another process: stop that one, or {remedy}"
        )


def _still_taken(ports: Iterable[int]) -> set[int]:
    """Give the ports that do not become free within _PORT_PATIENCE_S."""
    give_up_at = time.monotonic() + _PORT_PATIENCE_S
    taken = set(ports)
    while taken := {port for port in taken if not is_free(port)}:
        if time.monotonic() > give_up_at:
            break
        time.sleep(_PORT_POLL_S)
    return taken


def _unreserved(first: int, count: int, reserved: set[int]) -> list[int]:
    candidates = next_free_ports(first, count + len(reserved))
    return [port for port in candidates if port not in reserved][:count]
