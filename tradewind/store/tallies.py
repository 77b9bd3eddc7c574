"""How far an evacuation has come in a partition, by its counts and what couriers wrote down."""

from collections import Counter


def waiting(counts: dict[str, bytes]) -> int:
    """Tasks of a partition that wait, are dead, or are on their way, by its counts."""
    kinds = ("s:", "f:", "m:", "d:")
    return sum(int(n) for field, n in counts.items() if field == "P" or field.startswith(kinds))


def moved(tally: dict[str, bytes], order_ms: int) -> int:
    """Tasks of a partition that left for the evacuation that was ordered then."""
    return int(tally["moved"]) if _is_of(tally, order_ms) else 0


def kept(tally: dict[str, bytes], order_ms: int) -> Counter[str]:
    """Tasks of a partition that did not leave for it, by reason."""
    if not _is_of(tally, order_ms):
        return Counter()
    return Counter({f[2:]: int(n) for f, n in tally.items() if f.startswith("k:")})


def _is_of(tally: dict[str, bytes], order_ms: int) -> bool:
    return tally.get("at") == b"%d" % order_ms
