"""What a region's Redis holds of the control document, as last heard: see ports.Register."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from tradewind.control import EMPTY, Control, DamagedControl, Stamp, decode

_log = logging.getLogger(__name__)
# Versions kept by their stamps: a reply that says no more than a stamp may answer a question from
# before the last version was heard of.
_KEPT: Final = 4


class Holding:
    """The document of one region. Replies of several scripts bring it, if it is a new one."""

    def __init__(self, region: str) -> None:
        """Nothing has been heard yet."""
        self._region = region
        self._read: Mapping[bytes, Control | None] = {b"": EMPTY}
        self.control: Control | None = None
        self.known = b""  # the stamp of what was heard last, as the scripts spell it

    def take(self, stamp: Any, document: Any) -> Control | None:
        """Take what a reply says. Returns what is held; None if that cannot be read."""
        if stamp not in self._read:
            kept = dict(list(self._read.items())[1 - _KEPT :])
            self._read = {b"": EMPTY, **kept, stamp: self._decoded(stamp, document)}
        self.known, self.control = stamp, self._read[stamp]
        return self.control

    def _decoded(self, stamp: bytes, document: bytes) -> Control | None:
        try:
            return decode(document)
        except DamagedControl as error:
            extra = {"of": self._region, "stamp": stamp.decode(errors="replace")}
            _log.error(f"a region's control document cannot be read: {error}", extra=extra)
            return None


def spelt(stamp: Stamp) -> bytes:
    """A stamp as the scripts spell it."""
    return f"{stamp.epoch} {stamp.change_id}".encode()
