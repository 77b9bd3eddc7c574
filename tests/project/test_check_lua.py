from pathlib import Path

import pytest

from tools import check_lua


@pytest.fixture
def lua(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lib").mkdir()
    monkeypatch.setattr(check_lua, "LUA", tmp_path)
    return tmp_path


def test_includes_come_first_each_once_and_with_their_own_includes(lua: Path) -> None:
    (lua / "lib" / "a.lua").write_text("-- @include b\nA = 1\n")
    (lua / "lib" / "b.lua").write_text("B = 1\n")
    script = lua / "main.lua"
    script.write_text("#!lua\n-- @include a b\nreturn A\n")
    lines = check_lua.put_together(script)
    assert [line.text for line in lines] == [
        "B = 1",
        "-- @include b",
        "A = 1",
        "-- @include a b",
        "return A",
    ]


def test_a_line_keeps_the_number_it_has_in_its_file(lua: Path) -> None:
    (lua / "lib" / "a.lua").write_text("A = 1\n")
    script = lua / "main.lua"
    script.write_text("#!lua\n-- @include a\nreturn A\n")
    *_, last = check_lua.put_together(script)
    assert (last.path, last.number) == (script, 3)
