"""Which servers share a machine, and so its memory. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from tradewind.doctor.facts import RegionFacts

_HERE: Final = frozenset({"", "127.0.0.1", "localhost", "::1"})  # "": the path of a socket


def side_by_side(regions: Sequence[RegionFacts], named: Iterable[str]) -> list[RegionFacts]:
    """Tell each node how many servers its host has, and what the others there may take.

    `named` are addresses of servers that the file names, whether they were looked at or not.
    """
    seen = {node.address: node for region in regions for node in region.nodes}
    at_host: dict[str, set[str]] = {}
    for address in (*seen, *named):
        at_host.setdefault(_host(address), set()).add(address)
    limits = {address: node.number("maxmemory") for address, node in seen.items()}

    def beside(address: str) -> set[str]:
        return at_host[_host(address)] - {address}

    return [
        replace(
            region,
            nodes=tuple(
                replace(
                    node,
                    servers=1 + len(beside(node.address)),
                    others_limit=sum(limits.get(other, 0) for other in beside(node.address)),
                )
                for node in region.nodes
            ),
        )
        for region in regions
    ]


def _host(address: str) -> str:
    host = address.rpartition(":")[0].strip("[]")
    return "" if host in _HERE else host
