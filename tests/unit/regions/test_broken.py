"""Files that cannot be read."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.regions.files import TWO, all_of, one, refused
from tradewind.errors import ConfigError
from tradewind.regions import load, loads
from tradewind.regions.reader import MAX_FILE_BYTES

BROKEN = {
    "broken syntax": (TWO + "rules: [", 5),
    "a tab as indentation": ("version: 1\nregions:\n\teu: {}\n", 3),
    "an empty file": ("", 1),
    "only comments": ("# nothing\n", 1),
    "a list": ("- a\n", 1),
    "a lone word": ("regions", 1),
    "cut off in the middle": (TWO[: TWO.index("residency")], 3),
    "cut off behind a key": (TWO + "rules:\n", 5),
    "a duplicate key": (TWO + "version: 1\n", 5),
    "a duplicate region": (TWO + "  eu: {redis: redis://x}\n", 5),
    "a duplicate key, quoted": (TWO + '"version": 1\n', 5),
    "an anchor": (TWO + "rtt: &a {}\n", 5),
    "an alias": (TWO + "rtt: *a\n", 5),
    "an anchor on a key": (TWO + "&a rtt: {}\n", 5),
    "a tag": (TWO + "deployment: !!str 1\n", 5),
    "a Python tag": (TWO + "rtt: !!python/object/apply:os.system [true]\n", 5),
    "a local tag": (TWO + "rtt: !x {}\n", 5),
    "a merge key": (TWO + "<<: {}\n", 5),
    "a mapping as a key": (TWO + "{a: b}: c\n", 5),
    "a list as a key": (TWO + "? [a]\n: c\n", 5),
    "a second document": (TWO + "---\nversion: 1\n", 5),
    "too deep": (TWO + "rtt: " + "[" * 200 + "]" * 200, 5),
    "a number without end": (TWO + "partitions: " + "9" * 5000, 5),
}


@pytest.mark.parametrize(("text", "line"), BROKEN.values(), ids=BROKEN)
def test_not_a_usable_file(text: str, line: int) -> None:
    error = refused(text)
    assert error.line is not None
    assert error.line >= line
    assert len(str(error)) < 300


def test_a_syntax_error_is_placed_where_it_is() -> None:
    error = refused(TWO + "deployment: 'a\n")
    assert (error.line, str(error).startswith("regions.yaml:6:1: is not YAML: ")) == (6, True)


def test_what_the_file_says_cannot_forge_a_line_of_its_own() -> None:
    error = refused(TWO + '"a\\n\\e[31mb": 1')
    assert str(error) == r"regions.yaml:5:1: a\n\x1b[31mb: unknown key"
    assert len(str(refused(TWO + "x" * 100_000 + ": 1"))) < 500


def test_a_duplicate_names_the_first_one() -> None:
    error = refused(TWO + "version: 1\n")
    assert str(error) == "regions.yaml:5:1: version: duplicate key, first given in line 1"


def test_an_anchor_bomb_is_refused_at_its_first_anchor() -> None:
    lines = ["a0: &a0 [lol, lol]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60))]
    error = refused("\n".join(lines))
    assert (error.line, error.key) == (1, "a0")


def test_many_entries_are_refused_though_the_file_is_small() -> None:
    assert "more than 50000 entries" in refused(TWO + "rtt: [" + "a," * 60_000 + "]").problem


def _nothing(path: Path) -> None:
    pass


def _huge(path: Path) -> None:
    path.write_bytes(b"#" * (MAX_FILE_BYTES + 1))


def _latin(path: Path) -> None:
    path.write_bytes(b"version: 1\nx: \xe9\n")


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "not there": (_nothing, ": there is no such file; check the path"),
    "a directory": (Path.mkdir, ": is a directory; give the path of the file in it"),
    "a pipe": (os.mkfifo, ": is not a regular file"),
    "too large": (_huge, ": is larger than 1 MiB; is it the right file"),
    "not UTF-8": (_latin, ":2:4: is not UTF-8 here; save it as UTF-8"),
    "of null bytes": (lambda path: path.write_bytes(b"\0" * 9), "a character that is not allowed"),
    "a loop of links": (lambda path: path.symlink_to(path), ": cannot be read: Too many levels"),
}


@pytest.mark.parametrize(("make", "message"), FILES.values(), ids=FILES)
def test_a_path_is(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "regions.yaml"
    make(path)
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_socket_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        with pytest.raises(ConfigError, match="is not a regular file"):
            load(path, {})


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "regions.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + TWO.replace("\n", "\r\n").encode())
    assert load(path, {}) == loads(TWO, env={})


def test_text_that_cannot_be_encoded_is_refused() -> None:
    assert "UTF-8" in refused(TWO + "deployment: '\ud800'").problem


def test_load_reads_the_environment_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TW_TEST_HOST", "from-env")
    path = tmp_path / "regions.yaml"
    path.write_text(one("redis://${TW_TEST_HOST}"))
    assert load(str(path)).regions["eu"].redis.nodes == ("from-env:6379",)


@given(st.text(alphabet="version: 1\n  {}[],-#'\"&*!?|>%@`~<eu.0", max_size=200))
@example("!")
@example("---\n--- ")
@example("%YAML 1.1\n---\nversion: 1")
def test_any_text_is_read_or_refused_with_a_config_error(text: str) -> None:
    for whole in (text, TWO + text, TWO.replace("[eu]", text)):
        try:
            loads(whole, env={})
        except ConfigError as error:
            said = str(error).split("\n")
            assert said == [str(each) for each in all_of(error)]  # noqa: PT017 - either is fine
