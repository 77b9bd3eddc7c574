"""What a fleet needs before it starts: a directory of its own, and free ports."""

import contextlib
import fcntl
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
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
from tradewind.local.store_files import left_behind
from tradewind.local.stores import Form, Store, store_of

# HTTP ports are looked for from here on, counted from the gRPC port: 8070 beside 7070.
_HTTP_OFFSET = 1_000

# Children of a killed `tradewind up` need a moment to end and give up their ports.
_PORT_PATIENCE_S = 3.0
_PORT_POLL_S = 0.05


def choose_layout(fleet: Fleet, options: EmbeddedOptions) -> Layout:
    """Choose a port for everything. Raises LocalSetupError if one that must be free is taken."""
    names, form = list(fleet.regions), options.form
    apart = options.wan_apart
    pairs = wan_pairs(fleet, home=options.wan_home, apart=apart) if options.wan else []
    links = len(pairs) * form.nodes
    if options.ephemeral_ports:
        ports = iter(free_ports((3 + form.ports) * len(names) + links))
        stores = {name: store_of(name, form, ports) for name in names}
        regions = {name: RegionPorts(*(next(ports) for _ in range(3))) for name in names}
        return Layout(regions, stores, _wan(pairs, stores, ports), apart)
    _must_be_free(options.port, "choose another with --port")
    stores = _stores(_store_ports(fleet, options), form, options)
    reserved = {options.port, *(port for store in stores.values() for port in store.ports)}
    grpc = [
        options.port,
        *_unreserved(options.port + 1, len(names) - 1, reserved),
    ]
    reserved.update(grpc)
    rest = iter(
        _unreserved(options.port + _HTTP_OFFSET, 2 * len(names) + links, reserved),
    )
    regions = {
        name: RegionPorts(grpc_port, next(rest), next(rest))
        for name, grpc_port in zip(names, grpc, strict=True)
    }
    return Layout(regions, stores, _wan(pairs, stores, rest), apart)


def region_home(data_dir: Path, region: str) -> Path:
    """Where a region's Redis keeps its files."""
    return data_dir.resolve() / "regions" / region


def must_be_over(store: Store, home: Path) -> None:
    """Raise LocalSetupError if a server of the run before still writes to its files."""
    for port, place in left_behind(store, home):
        give_up_at = time.monotonic() + _PORT_PATIENCE_S
        while serves(port, place) and time.monotonic() < give_up_at:
            time.sleep(_PORT_POLL_S)
        _must_not_serve(port, place)


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


def _wan(
    pairs: Sequence[tuple[str, str]], stores: Mapping[str, Store], ports: Iterator[int]
) -> dict[tuple[str, str], int]:
    """A port for each way from a viewer to a node."""
    return {
        (viewer, node.name): next(ports)
        for viewer, region in pairs
        for node in stores[region].nodes
    }


def _stores(first: Mapping[str, int], form: Form, options: EmbeddedOptions) -> dict[str, Store]:
    """Every region's, its first server at these ports and the others behind the last of them."""
    more = len(first) * (form.ports - 1)
    others = iter(_unreserved(max(first.values()) + 1, more, {options.port, *first.values()}))
    return {region: store_of(region, form, chain([port], others)) for region, port in first.items()}


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
        _must_not_serve(stores[region], region_home(options.data_dir, region))
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
