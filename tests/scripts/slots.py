"""A slot of a Cluster that stays half-way between two nodes for as long as a test likes."""

from typing import Any, cast

import redis


class Slot:
    """The partition's slot, as it moves from its owner to another node, key by key."""

    def __init__(self, ports: list[int], number: int) -> None:
        self.ports, self.number = ports, number
        clients = [
            cast("Any", redis.Redis(port=port, single_connection_client=True)) for port in ports
        ]
        self._clients = clients
        self.source: Any = next(c for c in clients if self._owns(c))
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
        """The whole slot to the other node, which owns it from now on."""
        self.open()
        self.send(self.keys(self.source))
        for client in (self.target, self.source, *self._clients):
            self._set(client, "NODE", self.ids[1])
        self.source, self.target = self.target, self.source
        self.ids.reverse()

    def send(self, keys: list[bytes], *, back: bool = False) -> None:
        sender, receiver = (self.target, self.source) if back else (self.source, self.target)
        if keys:
            port = self.ports[self._clients.index(receiver)]
            sender.execute_command("MIGRATE", "127.0.0.1", port, "", 0, 5000, "KEYS", *keys)

    def keys(self, client: Any) -> list[bytes]:
        return sorted(client.execute_command("CLUSTER GETKEYSINSLOT", self.number, 1000))

    def dumps(self) -> list[dict[bytes, bytes]]:
        """What each of both nodes holds of the slot."""
        return [self._dump(self.source), self._dump(self.target)]

    def keep(self) -> None:
        """Nothing ends by itself, or it could do so between two looks of a slow test."""
        for key in self.keys(self.source):
            self.source.persist(key)

    def image(self) -> dict[bytes, tuple[bytes, int]]:
        """Everything at the owner, with what is left of its life, for `restore`."""
        dumps = self._dump(self.source)
        return {key: (dump, max(0, self.source.pttl(key))) for key, dump in dumps.items()}

    def restore(self, image: dict[bytes, tuple[bytes, int]]) -> None:
        """Make the owner's keys what they were."""
        with self.source.pipeline(transaction=False) as pipe:
            for key in self.keys(self.source):
                pipe.delete(key)
            for key, (dump, ttl_ms) in image.items():
                pipe.restore(key, ttl_ms, dump)
            pipe.execute()

    def _dump(self, client: Any) -> dict[bytes, bytes]:
        keys = self.keys(client)
        with client.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.execute_command("ASKING")
                pipe.execute_command("DUMP", key)
            return dict(zip(keys, pipe.execute()[1::2], strict=True))

    def _set(self, client: Any, *state: str) -> None:
        client.execute_command("CLUSTER SETSLOT", self.number, *state)

    def _owns(self, client: Any) -> bool:
        info = client.execute_command("CLUSTER SLOTS")
        port = client.get_connection_kwargs()["port"]
        return any(low <= self.number <= high and owner[1] == port for low, high, owner, *_ in info)
