"""docs/redis.md says what the code does: its numbers, and a row for every error reply."""

from pathlib import Path

import pytest

from tests.unit.store.test_refusals import REPLIES
from tradewind.store import link, listening, nodes, region_client, topology

PAGE = (Path(__file__).parents[2] / "docs" / "redis.md").read_text()

# What the page says, and the numbers in it as the code has them.
NUMBERS: dict[str, tuple[float, ...]] = {
    "asked one after the other, {} s apart": (topology.HEAD_START_S,),
    "(once a second at most), and every {:.0f} s": (nodes.REFRESH_EVERY_S,),
    "are closed after {:.0f} s, when no call": (nodes.PART_AFTER_S,),
    "| unanswered at a node, at most | {:.0f} MiB;": (link.UNANSWERED_BYTES / 2**20,),
    "| one call | {:.0f} s, unless": (region_client.CALL_TIMEOUT_S,),
    "| connecting | {0:.0f} s, and {0:.0f} s for the greeting": (link.CONNECT_TIMEOUT_S,),
    "{} s after the first failure, doubled up to {:.0f} s": (
        link.RETRY_FIRST_S,
        link.RETRY_MAX_S,
    ),
    "silent for {} s is asked for a sign of life, one that owes an answer for {} s is given up": (
        link.PING_AFTER_S,
        link.SILENCE_S,
    ),
    "a subscription is asked after {:.0f} s and has {:.0f} s": (
        listening.SILENCE_S,
        listening.ANSWER_S,
    ),
    "after {:.0f} ms, doubled up to {:.0f} s": (
        region_client.PAUSE_FIRST_S * 1_000,
        region_client.PAUSE_MAX_S,
    ),
}


@pytest.mark.parametrize(("words", "numbers"), NUMBERS.items(), ids=NUMBERS)
def test_a_number_of_the_page_is_that_of_the_code(words: str, numbers: tuple[float, ...]) -> None:
    assert words.format(*numbers) in PAGE


@pytest.mark.parametrize("word", sorted({reply.split()[0] for reply, _ in REPLIES.values()}))
def test_a_reply_has_its_row(word: str) -> None:
    known = {"ERR": "a permission or a key's type", "WRONGTYPE": "a key's type", "OOM": "`OOM`"}
    assert known.get(word, f"`{word}`") in PAGE
