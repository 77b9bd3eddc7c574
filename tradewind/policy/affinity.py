"""Which region a key belongs to: weighted rendezvous hashing. Pure.

rank(region) = -weight / ln(u), u = (h64(key, region) + 0.5) / 2**64, highest first. No table to
agree on: every router computes the same order, a removed region moves only its own keys, and a
changed weight moves as few as it can. Sources: Thaler & Ravishankar 1996; Schindelhauer &
Schomaker 2005.
"""

import math
from collections.abc import Iterable, Sequence
from hashlib import blake2b

_SEED = b"tw-affinity/1"  # blake2b's `person`: a change moves every key.
_FRACTION = b"tw-fraction/1"  # the same, for `fraction`
_BELOW_ONE = math.nextafter(1.0, 0.0)  # The top 2**10 hashes round to u = 1, whose ln is 0.


def rank(key: bytes, regions: Sequence[tuple[str, float]]) -> tuple[str, ...]:
    """Order (name, weight) pairs for a key, its home first, whatever the order they came in.

    A region whose weight is not above 0 is left out: it takes only explicit failover.
    """
    keyed = blake2b(len(key).to_bytes(8, "big") + key, digest_size=8, person=_SEED)
    ranks: list[tuple[float, str]] = []
    for name, weight in regions:
        if not weight > 0:
            continue
        hashed = keyed.copy()
        hashed.update(name.encode())
        u = min((int.from_bytes(hashed.digest(), "big") + 0.5) / 2**64, _BELOW_ONE)
        ranks.append((weight / math.log(u), name))  # negative, so ascending is highest first
    return tuple(name for _, name in sorted(ranks))


def fraction(key: bytes, name: str) -> float:
    """Return where in [0, 1) a key stands among all, by `name`: always there, evenly spread."""
    hashed = blake2b(len(key).to_bytes(8, "big") + key, digest_size=8, person=_FRACTION)
    hashed.update(name.encode())
    return int.from_bytes(hashed.digest()[:6], "big") / 2**48


def unweighted(key: bytes, names: Iterable[str]) -> tuple[str, ...]:
    """Order names for a key as `rank` does with equal weights (the home of a ledger entry)."""
    return rank(key, [(name, 1.0) for name in names])
