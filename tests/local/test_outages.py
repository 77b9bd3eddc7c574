"""What asks for an outage: files, and whatever else may lie in their place."""

from itertools import count
from pathlib import Path

import pytest

from tradewind.local.outages import Outages
from tradewind.local.stores import form_of, store_of

REGIONS = {
    region: store_of(region, form_of(cluster=False, replicas=True), count(6401))
    for region in ("eu-west", "us-east")
}


def asked(outages: Outages) -> tuple[set[str], list[str]]:
    said: list[str] = []
    return outages.asked(said.append), said


@pytest.fixture
def down(tmp_path: Path) -> Path:
    return tmp_path / "down"


def test_a_file_asks_for_the_region_of_its_name(down: Path) -> None:
    outages = Outages(down, REGIONS)
    (down / "eu-west").touch()
    assert asked(outages) == ({"eu-west"}, [])


@pytest.mark.parametrize("is_directory", [False, True])
def test_what_a_run_before_asked_for_is_cleared(down: Path, is_directory: bool) -> None:
    wish = down / "eu-west"
    down.mkdir()
    wish.mkdir() if is_directory else wish.touch()
    assert asked(Outages(down, REGIONS)) == (set(), [])


def test_nothing_is_deleted_that_is_no_wish(down: Path, tmp_path: Path) -> None:
    precious = tmp_path / "elsewhere" / "precious"
    precious.parent.mkdir()
    precious.touch()
    down.symlink_to(precious.parent)
    Outages(down, REGIONS)
    assert precious.exists()


def test_a_directory_that_was_removed_asks_for_nothing(down: Path) -> None:
    outages = Outages(down, REGIONS)
    down.rmdir()
    assert asked(outages) == (set(), [])


def test_a_file_in_its_place_asks_for_nothing_and_says_so_once(down: Path) -> None:
    outages = Outages(down, REGIONS)
    down.rmdir()
    down.touch()
    said = [asked(outages), asked(outages)]
    assert [regions for regions, _ in said] == [set(), set()]
    assert [len(sentences) for _, sentences in said] == [1, 0]
