"""The ways from every service to every Redis server: each can be spoilt alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tradewind.fleet import RedisTarget
from tradewind.local.freeports import LOOPBACK
from tradewind.local.scratch import RedisProcess
from tradewind.local.wan import Link, WanProxy


@dataclass(frozen=True, slots=True)
class Way:
    """Links that a fault strikes together: of one process to a region, or to one server of it."""

    name: str  # VIEWER -> REGION, and the server if it is one of several
    links: tuple[Link, ...]


class Links:
    """A link for each pair of a service and a server, all of them sound at first."""

    def __init__(
        self,
        viewers: Sequence[str],
        nodes: Mapping[str, Sequence[RedisProcess]],
        ports: Iterator[int],
    ) -> None:
        """`nodes`: region -> its servers, with its Sentinels. Takes a port for each pair."""
        self._links: Final = {
            (viewer, region): tuple(
                Link(next(ports), LOOPBACK, server.port, 0.0) for server in servers
            )
            for viewer in viewers
            for region, servers in nodes.items()
        }
        self.proxy: Final = WanProxy([link for links in self._links.values() for link in links])

    def seen_by(self, viewer: str, targets: Mapping[str, RedisTarget]) -> dict[str, RedisTarget]:
        """Where that service finds each region: `targets`, by its own links."""
        return {
            region: RedisTarget(
                target.kind,
                target.nodes,
                service=target.service,
                through={
                    f"{link.target_host}:{link.target_port}": f"{LOOPBACK}:{link.listen_port}"
                    for link in self._links[viewer, region]
                },
            )
            for region, target in targets.items()
        }

    def ways_to(self, region: str) -> list[Way]:
        """All that a fault of links to it may strike."""
        return [
            way
            for (viewer, to), links in self._links.items()
            if to == region
            for way in _ways(f"{viewer} -> {region}", links)
        ]


def _ways(name: str, links: tuple[Link, ...]) -> Iterator[Way]:
    yield Way(name, links)
    if len(links) > 1:
        for link in links:
            yield Way(f"{name}, server {link.target_port}", (link,))
