"""Each change that breaks an invariant is noticed: one for each in every run, all at length."""

import re
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.hunt import Mutant, hunt
from tradewind.local.scratch import RedisProcess

PAGE = Path(__file__).parents[2] / "docs" / "invariants.md"
# Quickly noticed, so that every run of the suite shows once for each invariant what it is worth.
QUICK = (
    "enqueue puts no ticket into the list",
    "import_task imports what was fenced",
    "finish takes any token",
    "reserve replaces an entry",
    "enqueue writes the record of what it refuses",
    "refuse keeps a tombstone for ever",
)
by_name = {mutant.what: mutant for mutant in MUTANTS}


def test_every_change_fits_its_script() -> None:
    for mutant in MUTANTS:
        mutant.edit.check()
    assert len(by_name) == len(MUTANTS)
    assert {by_name[what].invariant for what in QUICK} == {m.invariant for m in MUTANTS}


def test_the_page_lists_every_change_with_its_invariant() -> None:
    rows = re.findall(r"^\| (\d) \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)
    listed = {what.replace("`", ""): int(number) for number, what in rows}
    assert listed == {mutant.what: mutant.invariant for mutant in MUTANTS}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, marks=[] if mutant.what in QUICK else pytest.mark.long)
        for mutant in MUTANTS
    ],
    ids=lambda mutant: mutant.what,
)
def test_a_change_is_noticed(
    redis_servers: list[RedisProcess], monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    assert hunt(mutant.edit, redis_servers, monkeypatch) is not None
