"""A slot of a Cluster that stays half-way between two nodes for as long as a test likes."""

from typing import Any, cast

import redis

from tradewind.local.scratch.server import wait_until


class Slot:
    """The partition's slot, as it moves from its owner to another node, key by key."""

    def __init__(self, ports: list[int], number: int) -> None:
        self.ports, self.number = ports, number
        clients = [
            cast("Any", redis.Redis(port=port, single_connection_client=True)) for port in ports
        ]
        self._clients = clients
        self.source: Any = next(filter(self._owns, clients), None)
        assert self.source, f"no node on ports {ports} serves slot {number}"
        self.target: Any = next(c for c in clients if c is not self.source)
        self.ids = [c.execute_command("CLUSTER MYID").decode() for c in (self.source, self.target)]

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def open(self) -> None:
        self._set(self.target, "IMPORTING", self.ids[0])
        self._set(self.source, "MIGRATING", self.ids[1])

    def settle(self) -> None:
        """Everything back at the owner."""
        self._set(self.source, "STABLE")
        self.send(self.keys(self.target), back=True)
        self._set(self.target, "STABLE")

    def hand_over(self) -> None:
        """The whole slot to the other node, which owns it from now on, as every node knows.

        Handed back before they all know, a late claim of its former owner counts for more than
        the new one's: then both give it to the other, and nobody serves it.
        """
        self.open()
        self.send(self.keys(self.source))
        for client in (self.target, self.source, *self._clients):
            self._set(client, "NODE", self.ids[1])
        self.source, self.target = self.target, self.source
        self.ids.reverse()
        wait_until(
            lambda: len(set(map(self._claim, self._clients))) == 1,
            f"the nodes on ports {self.ports} do not agree about slot {self.number}",
        )

    def send(self, keys: list[bytes], *, back: bool = False) -> None:
        sender, receiver = (self.target, self.source) if back else (self.source, self.target)
        if keys:
            port = self.ports[self._clients.index(receiver)]
            sender.execute_command("MIGRATE", "127.0.0.1", port, "", 0, 5000, "KEYS", *keys)

    def keys(self, client: Any) -> list[bytes]:
        return sorted(client.execute_command("CLUSTER GETKEYSINSLOT", self.number, 1000))

    def digests(self) -> list[dict[bytes, bytes]]:
        """What each of both nodes holds of the slot: a digest a key."""
        return [self._digests(self.source), self._digests(self.target)]

    def keep(self) -> None:
        """Nothing ends by itself, or it could do so between two looks of a slow test."""
        for key in self.keys(self.source):
            self.source.persist(key)

    def image(self) -> dict[bytes, bytes]:
        """Everything at the owner, for `restore`."""
        return {key: self.source.dump(key) for key in self.keys(self.source)}

    def restore(self, image: dict[bytes, bytes]) -> None:
        """Make the owner's keys what they were."""
        with self.source.pipeline(transaction=False) as pipe:
            if keys := self.keys(self.source):
                pipe.unlink(*keys)
            for key, dump in image.items():
                pipe.restore(key, 0, dump)
            pipe.execute()

    def _digests(self, client: Any) -> dict[bytes, bytes]:
        keys = self.keys(client)
        digests: list[bytes] = client.execute_command("DEBUG", "DIGEST-VALUE", *keys)
        return dict(zip(keys, digests, strict=True))

    def _set(self, client: Any, *state: str) -> None:
        client.execute_command("CLUSTER SETSLOT", self.number, *state)

    def _claim(self, client: Any) -> tuple[str, str]:
        """Who owns the slot, and by which epoch it says so, as this node has heard."""
        nodes = client.execute_command("CLUSTER NODES").values()
        known = {node["node_id"]: node["epoch"] for node in nodes}
        owners = (
            owner[2].decode()
            for low, high, owner, *_ in client.execute_command("CLUSTER SLOTS")
            if low <= self.number <= high
        )
        owner = next(owners, "")
        return owner, known.get(owner, "")

    def _owns(self, client: Any) -> bool:
        info = client.execute_command("CLUSTER SLOTS")
        port = client.get_connection_kwargs()["port"]
        return any(low <= self.number <= high and owner[1] == port for low, high, owner, *_ in info)
