"""Numbers as people read them."""

from tradewind.limits import KIB, MIB

_GIB = 1024 * MIB


def size(number: int) -> str:
    """Bytes in the unit that reads best."""
    for unit, name in ((_GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number} bytes"


def several(names: tuple[str, ...], most: int = 3, *, between: str = ", ") -> str:
    """The first ones, and how many there are beside these."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def many(number: int, what: str) -> str:
    """A number of things: 1 task, 2 tasks."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
