"""Noticing that a file says something else, however it was replaced."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tradewind.regions.watch import FileWatch

LOOK_S = 0.01


async def tells(watch: FileWatch, within_s: float = 5.0) -> bool:
    """Whether it tells of a change."""
    try:
        async with asyncio.timeout(within_s):
            await anext(watch.changes())
    except TimeoutError:
        return False
    return True


def rewritten(path: Path) -> None:
    path.write_text("two")


def renamed(path: Path) -> None:
    new = path.with_name("new")
    new.write_text("two")
    new.rename(path)


def removed(path: Path) -> None:
    path.unlink()


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("change", [rewritten, renamed, removed, a_directory, a_pipe])
async def test_a_change_is_told_once(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "regions.yaml"
    path.write_text("one")
    watch = FileWatch(path, every_s=LOOK_S)

    change(path)

    assert await tells(watch)
    assert not await tells(watch, 10 * LOOK_S)


async def test_a_swapped_link_is_told_as_kubernetes_does_it(tmp_path: Path) -> None:
    """The file is a link into `..data`, a link to a directory of its version, which is swapped."""
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "regions.yaml").write_text(version)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "regions.yaml").symlink_to("..data/regions.yaml")
    watch = FileWatch(tmp_path / "regions.yaml", every_s=LOOK_S)

    (tmp_path / "..data_tmp").symlink_to("two")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")

    assert await tells(watch)


async def test_the_same_bytes_in_another_file_are_no_change(tmp_path: Path) -> None:
    path = tmp_path / "regions.yaml"
    path.write_text("two")
    watch = FileWatch(path, every_s=LOOK_S)

    renamed(path)

    assert not await tells(watch, 20 * LOOK_S)


async def test_a_file_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "regions.yaml"
    path.write_text("one")
    watch = FileWatch(path, every_s=5 * LOOK_S)
    told = asyncio.ensure_future(tells(watch))

    with path.open("w") as file:
        for number in range(50):  # it is longer at every look
            file.write(f"{number}\n")
            file.flush()
            await asyncio.sleep(LOOK_S)
            assert not told.done()

    assert await told


async def test_a_change_from_before_it_was_asked_is_told(tmp_path: Path) -> None:
    path = tmp_path / "regions.yaml"
    path.write_text("one")
    watch = FileWatch(path, every_s=LOOK_S)
    path.write_text("two")
    path.write_text("three")

    assert await tells(watch)
