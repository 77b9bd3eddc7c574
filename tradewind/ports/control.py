"""What agreeing on the control document needs of a region, and reading it."""

from typing import Protocol

from tradewind.control import Barred, Control, Stamp


class Register(Protocol):
    """One region's vote: see tradewind.control.force (router, worker).

    A promise and an acceptance outlive the process; how far they outlive the store's machine is
    the store's own persistence.
    """

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    def held(self) -> Control | None:
        """What the region held when it was last heard, EMPTY for none. Asks nobody.

        `workers` and `heartbeat` bring it along. None: it was not heard, or cannot be read.
        """
        ...

    async def control(self, *, timeout_s: float) -> Control:
        """Ask what the region holds."""
        ...

    async def control_promise(self, stamp: Stamp, *, timeout_s: float) -> Control | Barred:
        """From now on the region takes no version of a lower epoch. Returns what it holds."""
        ...

    async def control_accept(self, control: Control, *, timeout_s: float) -> Barred | None:
        """Have the region hold this version. None: it does."""
        ...
