"""The control document: region states, pauses and evacuation orders, and who holds which of it.

Pure: what it says, how it changes, how it travels, and which of several is in force. How it is
agreed on is in docs/decisions/0016-control-document.md.
"""

from tradewind.control.changes import evacuate, pause, resume, set_state
from tradewind.control.codec import DamagedControl, decode, encode
from tradewind.control.force import (
    UNKNOWN,
    Standing,
    above,
    built_on,
    in_force,
    is_majority,
    laggards,
    next_version,
    obeyed,
    overruled,
    undecided,
)
from tradewind.control.values import (
    EMPTY,
    NEVER,
    Barred,
    Control,
    Evacuation,
    Order,
    Pause,
    RegionState,
    Stamp,
)

__all__ = [
    "EMPTY",
    "NEVER",
    "UNKNOWN",
    "Barred",
    "Control",
    "DamagedControl",
    "Evacuation",
    "Order",
    "Pause",
    "RegionState",
    "Stamp",
    "Standing",
    "above",
    "built_on",
    "decode",
    "encode",
    "evacuate",
    "in_force",
    "is_majority",
    "laggards",
    "next_version",
    "obeyed",
    "overruled",
    "pause",
    "resume",
    "set_state",
    "undecided",
]
