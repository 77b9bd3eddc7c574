"""A region's Redis on disk: a directory for each node, with what it knows of the others.

It is made whole or not at all, and kept between runs: ids, roles and data stay, ports may change.
"""

import shutil
from pathlib import Path

from tradewind.local import cluster_files, sentinel_files
from tradewind.local.errors import LocalSetupError
from tradewind.local.redis_server import ServerBinary
from tradewind.local.stores import Node, Store

_KNOWN = {"cluster": "nodes.conf", "sentinel": "redis.conf"}  # of a server; by kind
_WATCHED = "sentinel.conf"


def file_of(store: Store, home: Path, node: Node) -> Path:
    """Where a node keeps what it knows of the others. `home` is the region's, of all forms."""
    name = _WATCHED if node in store.sentinels else _KNOWN[store.form.kind]
    return directory_of(store, home, node) / name


def directory_of(store: Store, home: Path, node: Node) -> Path:
    """Where a node keeps its files."""
    return home / store.form.directory / node.directory


def left_behind(store: Store, home: Path) -> list[tuple[int, Path]]:
    """Port and directory of each server of the run before, as far as it has several.

    Raises LocalSetupError if one of its files is missing or says nothing, and OSError.
    """
    if store.form.kind == "standalone" or not (home / store.form.directory).exists():
        return []
    found: list[tuple[int, Path]] = []
    for node in store.servers:
        text = _text(store, home, node)
        is_cluster = store.form.kind == "cluster"
        port = cluster_files.port_in(text, node) if is_cluster else sentinel_files.port_in(text)
        found.append((port, directory_of(store, home, node)))
    return found


def lay_out(store: Store, home: Path, server: ServerBinary) -> None:
    """Make the directories and files of a region, or have those that there are name these ports.

    Nothing of it may run. Raises LocalSetupError as `left_behind` does, and OSError.
    """
    place = home / store.form.directory
    if store.form.kind == "standalone":
        place.mkdir(parents=True, exist_ok=True)
        return
    if place.exists():
        for node, text in _texts(store, home).items():
            path = file_of(store, home, node)
            new = path.with_suffix(".new")
            new.write_text(text, encoding="utf-8")
            new.replace(path)
        return
    new = place.with_name(f"{place.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    for node, text in _first_texts(store, server).items():
        (new / node.directory).mkdir(parents=True)
        (new / node.directory / file_of(store, home, node).name).write_text(text, encoding="utf-8")
    new.rename(place)


def _first_texts(store: Store, server: ServerBinary) -> dict[Node, str]:
    if store.form.kind == "sentinel":
        return _watched(store, primary=0)
    texts = cluster_files.born(store.servers, store.form.primaries, version=server.version)
    return dict(zip(store.servers, texts, strict=True))


def _texts(store: Store, home: Path) -> dict[Node, str]:
    """As `_first_texts`, from the files that there are."""
    left = [_text(store, home, node) for node in store.servers]
    if store.form.kind == "sentinel":
        told = [_text(store, home, node) for node in store.sentinels]
        return _watched(store, sentinel_files.primary_among(left, told))
    return dict(zip(store.servers, cluster_files.relocated(left, store.servers), strict=True))


def _watched(store: Store, primary: int) -> dict[Node, str]:
    first = store.servers[primary]
    others = [node for node in store.servers if node != first]
    texts = [sentinel_files.server_text(node, first) for node in store.servers]
    texts += sentinel_files.sentinel_texts(store.sentinels, first, others)
    return dict(zip(store.nodes, texts, strict=True))


def _text(store: Store, home: Path, node: Node) -> str:
    path = file_of(store, home, node)
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise LocalSetupError(
            f"{path} is missing or damaged ({error}): put it back, or remove "
            f"{home / store.form.directory} to begin anew without its data"
        ) from None
