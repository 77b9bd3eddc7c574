"""One region's vote on the control document (port Register)."""

from tradewind.control import Barred, Control, Stamp
from tradewind.testing.memory.role import Role


class RegisterRole(Role):
    """See ports.Register."""

    def held(self) -> Control | None:
        """What the region holds: memory is always heard."""
        return self.room.control

    async def control(self, *, timeout_s: float) -> Control:
        """What the region holds."""
        del timeout_s  # memory answers at once
        return self.room.control

    async def control_promise(self, stamp: Stamp, *, timeout_s: float) -> Control | Barred:
        """Take no version of a lower epoch from now on."""
        del timeout_s
        barred = self._barred(stamp)
        if barred is None:
            self.room.promised = stamp
        return barred or self.room.control

    async def control_accept(self, control: Control, *, timeout_s: float) -> Barred | None:
        """Hold this version."""
        del timeout_s
        barred = self._barred(control.stamp)
        if barred is None:
            self.room.promised, self.room.control = control.stamp, control
        return barred

    def _barred(self, stamp: Stamp) -> Barred | None:
        promised = self.room.promised
        may = stamp.epoch > promised.epoch or stamp == promised
        return None if may else Barred(promised.epoch)
