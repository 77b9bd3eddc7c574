"""One region's vote on the control document (port Register)."""

from typing import Any, cast

from tradewind.control import Barred, Control, Stamp, encode
from tradewind.errors import StoreContractBroken
from tradewind.store.holding import spelt
from tradewind.store.role import Role
from tradewind.store.upkeep import CONTROL


class RegisterRole(Role):
    """See ports.Register."""

    def held(self) -> Control | None:
        """What the region held when it was last heard; see ports.Register."""
        return self._client.holding.control

    async def control(self, *, timeout_s: float) -> Control:
        """Ask what it holds; see ports.Register."""
        call = self._client.call(
            "control", CONTROL, self._key(), {"known": self._client.holding.known}
        )
        return self._heard(await self._client.run(call, timeout_s=timeout_s))

    async def control_promise(self, stamp: Stamp, *, timeout_s: float) -> Control | Barred:
        """Have it take no version of a lower epoch; see ports.Register."""
        args = {
            "epoch": stamp.epoch,
            "change_id": stamp.change_id,
            "known": self._client.holding.known,
        }
        call = self._client.call("control_promise", CONTROL, self._key(), args)
        reply = await self._client.run(call, timeout_s=timeout_s)
        return _barred(reply) or self._heard(reply)

    async def control_accept(self, control: Control, *, timeout_s: float) -> Barred | None:
        """Have it hold this version; see ports.Register."""
        epoch, change_id = control.stamp
        document = encode(control)
        args = {"epoch": epoch, "change_id": change_id, "document": document}
        call = self._client.call("control_accept", CONTROL, self._key(), args)
        barred = _barred(await self._client.run(call, timeout_s=timeout_s))
        if barred is None:
            self._client.holding.take(spelt(control.stamp), document)
        return barred

    def _key(self) -> dict[str, str]:
        return {"control": self._client.keys[CONTROL].control}

    def _heard(self, reply: list[Any]) -> Control:
        control = self._client.holding.take(reply[1], reply[2])
        if control is None:
            message = f"region {self.region} holds a control document that cannot be read"
            raise StoreContractBroken(message)
        return control


def _barred(reply: list[Any]) -> Barred | None:
    return Barred(int(cast("bytes", reply[1]))) if reply[0] == "barred" else None
