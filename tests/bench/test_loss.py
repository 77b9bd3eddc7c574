"""What is confirmed survives what its durability names; and the measurement sees what does not."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bench.loss import CASES, Case, compiled, die_once

SHORT = {case.name: replace(case, seconds=2.0) for case in CASES}


@pytest.mark.long
@pytest.mark.parametrize(
    "case", [c for c in SHORT.values() if c.durability != "memory"], ids=lambda c: c.name
)
async def test_no_confirmed_task_is_lost(case: Case, tmp_path: Path) -> None:
    if case.is_watched and shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    told = await die_once(case, tmp_path, compiled(tmp_path))
    assert told["answered"] > 0
    assert told["lost"] == 0


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
async def test_a_machine_takes_with_it_what_was_not_synced(tmp_path: Path) -> None:
    told = await die_once(SHORT["memory, AOF everysec: power"], tmp_path, compiled(tmp_path))
    assert told["lost"] > 0
