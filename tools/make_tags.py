"""Search the hash tags of tradewind/store/tags.py. Run it once; the table is committed.

    python tools/make_tags.py            write the tables
    python tools/make_tags.py --check    exit 1 if the committed tables differ

A partition's tag must hash to slot (2i+1)*16384/(2N), so that any m contiguous equal slot ranges
hold N/m partitions within one. The first hex text that does, shortest first, is the tag: the
search has no choice, so it gives the same tables on every machine.
"""

import argparse
import binascii
import sys
import textwrap
from collections.abc import Iterator
from itertools import product
from pathlib import Path

SLOTS = 16_384  # Redis Cluster specification
SIZES = (16, 64, 128, 256)
MAX_TAG_LENGTH = 5  # enough to reach every slot
TARGET = Path(__file__).parents[1] / "tradewind" / "store" / "tags.py"
BEGIN = "# BEGIN tables: written by tools/make_tags.py\n# fmt: off\n"
END = "# fmt: on\n# END tables\n"


def slot_of(tag: str) -> int:
    """CRC16/XMODEM of the tag, which is what Redis hashes when a key has `{tag}`."""
    return binascii.crc_hqx(tag.encode(), 0) % SLOTS


def candidates() -> Iterator[str]:
    """Every hex text of up to five characters, shortest first."""
    for length in range(1, MAX_TAG_LENGTH + 1):
        for letters in product("0123456789abcdef", repeat=length):
            yield "".join(letters)


def search() -> dict[int, tuple[str, ...]]:
    """Return the tags in partition order for each supported number of partitions."""
    wanted = {n: [(2 * i + 1) * SLOTS // (2 * n) for i in range(n)] for n in SIZES}
    missing = {slot for slots in wanted.values() for slot in slots}
    found: dict[int, str] = {}
    for tag in candidates():
        slot = slot_of(tag)
        if slot in missing:
            missing.remove(slot)
            found[slot] = tag
            if not missing:
                break
    return {n: tuple(found[slot] for slot in slots) for n, slots in wanted.items()}


def render(tables: dict[int, tuple[str, ...]]) -> str:
    """Return the generated part of tags.py."""
    lines: list[str] = []
    for n, tags in tables.items():
        lines.append(f"TAGS_{n} = (")
        quoted = " ".join(f'"{tag}",' for tag in tags)
        lines += textwrap.wrap(quoted, 100, initial_indent="    ", subsequent_indent="    ")
        lines.append(")")
    return "".join(f"{line}\n" for line in lines)


def main() -> int:
    """Write or check the tables. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Search the hash tags of the partitions.")
    parser.add_argument("--check", action="store_true", help="only compare")
    check: bool = parser.parse_args().check
    before = TARGET.read_text(encoding="utf-8")
    head, _, rest = before.partition(BEGIN)
    tail = rest.partition(END)[2]
    after = head + BEGIN + render(search()) + END + tail
    if check and after != before:
        sys.stderr.write(f"{TARGET.name} differs from the search: run python tools/make_tags.py\n")
        return 1
    if not check:
        TARGET.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
