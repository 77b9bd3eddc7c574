from pathlib import Path

import pytest

from tools import redis_seven

WRONG = {
    "nothing": (None, "it does not start"),
    "another program": ("echo hello", "it does not start as a redis-server"),
    "another version": ("echo 'Redis server v=8.2.3 sha=0'", "it is version 8.2.3"),
}


def server(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("body", "trouble"), WRONG.values(), ids=WRONG)
def test_a_named_server_that_does_not_serve_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str | None, trouble: str
) -> None:
    named = tmp_path / "redis-server"
    if body is not None:
        server(named, body)
    monkeypatch.setenv(redis_seven.VARIABLE, str(named))
    with pytest.raises(redis_seven.MissingError, match=f"{named}, but {trouble}"):
        redis_seven.find()


def test_a_machine_without_any_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(redis_seven.VARIABLE, raising=False)
    monkeypatch.setattr(redis_seven, "UNPACKED", tmp_path / "redis-7")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        redis_seven.MissingError, match=f"name a redis-server 7.x in {redis_seven.VARIABLE}"
    ):
        redis_seven.find()


def test_what_is_on_the_path_serves_if_it_is_of_that_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(redis_seven.VARIABLE, raising=False)
    found = server(tmp_path / "redis-server", "echo 'Redis server v=7.0.15 sha=0'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert redis_seven.find() == found
