import io
import json
import logging
from collections.abc import Iterator

import pytest

from tradewind import logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_off_a_terminal_each_line_is_an_object_with_its_facts() -> None:
    out = io.StringIO()
    logs.setup("worker", region="eu", stream=out)
    logging.getLogger("a").info("task %s ended", "done", extra={"task_id": "t1"})
    line = json.loads(out.getvalue())
    del line["time"]
    assert line == {
        "level": "info",
        "logger": "a",
        "message": "task done ended",
        "service": "worker",
        "region": "eu",
        "task_id": "t1",
    }


def test_on_a_terminal_people_read_it() -> None:
    out = Terminal()
    logs.setup("worker", stream=out)
    logging.getLogger("a").warning("slow", extra={"task_id": "t1"})
    assert out.getvalue().endswith("WARNING a: slow task_id=t1\n")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["JSON", "lines"])
def test_credentials_in_an_address_are_blanked(stream: io.StringIO) -> None:
    logs.setup("worker", stream=stream)
    logging.getLogger("a").info("at %s", "redis://worker:hunter2@127.0.0.1:6379/0")
    assert "hunter2" not in stream.getvalue()
    assert "redis://***@127.0.0.1:6379/0" in stream.getvalue()


def test_setting_up_twice_says_nothing_twice() -> None:
    out = io.StringIO()
    logs.setup("worker", stream=out)
    logs.setup("worker", stream=out)
    logging.getLogger("a").info("once")
    assert len(out.getvalue().splitlines()) == 1
