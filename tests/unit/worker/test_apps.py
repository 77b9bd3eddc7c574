from collections.abc import Iterator
from pathlib import Path

import pytest

from tradewind.errors import SetupError
from worker.__main__ import main
from worker.apps import load_app

APP = """
from tradewind import App, Context
app = App()
other = App()
number = 5

@app.task("t")
async def t(ctx: Context) -> None: ...
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory of the user's own; what is imported from it is forgotten."""
    import sys

    known, path = set(sys.modules), sys.path[:]
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def write(place: Path, name: str, text: str = APP) -> None:
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(text)


@pytest.mark.parametrize("name", ["worker.py", "router.py", "tradewind.py", "jobs.py", "a-b.py"])
def test_a_file_loads_by_path_whatever_it_is_called(place: Path, name: str) -> None:
    write(place, name)
    assert list(load_app(f"./{name}:app").handlers) == ["t"]
    assert list(load_app(f"{name}:app").handlers) == ["t"]


def test_a_module_loads_from_the_working_directory(place: Path) -> None:
    write(place, "shop/__init__.py", "")
    write(place, "shop/jobs.py")
    assert list(load_app("shop.jobs:app").handlers) == ["t"]


def test_a_file_finds_its_neighbours(place: Path) -> None:
    write(place, "sub/helper_of_test.py", "NAME = 'from-helper'")
    own = "from helper_of_test import NAME\nfrom tradewind import App\napp = App()\n"
    write(place, "sub/worker.py", own + "app.task(NAME)(lambda: None)")
    assert list(load_app("./sub/worker.py:app").handlers) == ["from-helper"]


BROKEN: dict[str, tuple[str, str, str]] = {
    "no name": ("jobs", APP, "write MODULE:NAME"),
    "our own package": ("worker.jobs:app", APP, r"worker is a package of Tradewind itself; .*path"),
    "no such module": ("absent_module:app", APP, "there is no module absent_module in"),
    "no such file": ("./absent.py:app", APP, "there is no file .*absent.py"),
    "no such name": ("jobs:application", APP, "the module has no application; it has app, other"),
    "another kind": ("jobs:number", APP, "number is a int, not a tradewind.App; it has app"),
    "no tasks": ("jobs:other", APP, "the app has no tasks; register some with @other.task"),
    "an error inside": ("jobs:app", "\n1 / 0\n", r"failed at .*jobs.py:2 with ZeroDivisionError"),
    "a syntax error": ("jobs:app", "\n\nx = (\n", r"failed at .*jobs.py:3 with SyntaxError"),
    "an error inside a library, at the line that called it": (
        "jobs:app",
        "import json\n\njson.loads('{')\n",
        r"failed at .*jobs.py:3 with JSONDecodeError",
    ),
    "a task without a name": (
        "jobs:app",
        "from tradewind import App\napp = App()\n@app.task\ndef t(): ...\n",
        r"""failed at .*jobs.py:3 with TypeError: .* write @app.task\("name"\)""",
    ),
    "a name twice": (
        "jobs:app",
        "from tradewind import App\napp = App()\n@app.task('t')\ndef t(): ...\n\napp.task('t')(t)",
        r"failed at .*jobs.py:6 with ValueError: task 't' has two handlers, the first at .*py:3",
    ),
    "a missing dependency": ("jobs:app", "import nope_nope", r"jobs.py:1 with ModuleNotFound"),
    "an exit": ("jobs:app", "raise SystemExit(3)", r"jobs.py:1 with SystemExit: 3"),
    "a bad signature": (
        "jobs:app",
        "from tradewind import App\napp = App()\n@app.task('t')\ndef t(a: App): ...\n",
        "task 't': parameter a: hint App says nothing about JSON",
    ),
}


@pytest.mark.parametrize(("target", "text", "message"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_loaded_is_one_sentence(
    place: Path, target: str, text: str, message: str
) -> None:
    write(place, "jobs.py", text)
    with pytest.raises(SetupError, match=message) as refused:
        load_app(target)
    assert str(refused.value).startswith(f"--app {target}: ")
    assert "\n" not in str(refused.value)


def test_an_app_can_be_checked_without_running_it(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(place, "jobs.py", APP + "print('hello')\n")
    with pytest.raises(SystemExit) as ended:
        main(["--check-app", "jobs:app"])
    assert (ended.value.code, *capfd.readouterr()) == (0, "", "")


def test_an_app_that_fails_its_check_says_why_in_one_sentence(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(place, "jobs.py", "print('hello')\n1 / 0\n")
    with pytest.raises(SystemExit) as ended:
        main(["--check-app", "jobs:app"])
    out, err = capfd.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.startswith("--app jobs:app: importing it failed at ")
    assert err.endswith("jobs.py:2 with ZeroDivisionError: division by zero\n")
