"""Loads the user's app: `MODULE:NAME`, or `./file.py:NAME`."""

import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final

import tradewind
from tradewind.errors import SetupError
from tradewind.handlers import App

_PLACES: Final = sysconfig.get_paths()
#: Where an app's own files are not: the standard library, installed packages, Tradewind itself.
_NOT_USERS: Final = (
    *(Path(_PLACES[key]).resolve() for key in ("stdlib", "platstdlib", "purelib", "platlib")),
    Path(tradewind.__file__).resolve().parent,
)
_OURS: Final = ("router", "tradewind", "worker")  # top-level packages that this process has loaded


def load_app(target: str) -> App:
    """The App that `target` names. Raises SetupError: one sentence, with the place of a failure.

    Modules are looked up from the working directory first, those of a file from its directory. A
    file may be called as one of our packages (worker.py): given by path, it gets a name of its own.
    """
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise SetupError(f"--app {target}: write MODULE:NAME, or ./file.py:NAME")
    is_file = place.endswith(".py") or os.sep in place
    module = _from_file(target, Path(place)) if is_file else _from_module(target, place)
    app = getattr(module, name, None)
    if not isinstance(app, App):
        raise SetupError(f"--app {target}: {_what_it_is(module, name, app)}")
    try:
        app.check()
    except TypeError as error:
        raise SetupError(f"--app {target}: {error}") from error
    if not app.handlers:
        raise SetupError(f"--app {target}: the app has no tasks; register some with @{name}.task")
    return app


def _from_module(target: str, name: str) -> ModuleType:
    top = name.partition(".")[0]
    if top in _OURS:
        raise SetupError(
            f"--app {target}: {top} is a package of Tradewind itself; "
            f"give your own file by its path, such as ./{name.replace('.', '/')}.py:NAME",
        )
    _look_first_in(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise SetupError(
                f"--app {target}: there is no module {error.name} in {Path.cwd()} or installed"
            ) from error
        raise _failure(target, error) from error
    except (Exception, SystemExit) as error:
        raise _failure(target, error) from error


def _from_file(target: str, path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise SetupError(f"--app {target}: there is no file {path}")
    name = path.stem if path.stem not in _OURS and path.stem.isidentifier() else f"app_{path.stem}"
    _look_first_in(path.parent)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SetupError(f"--app {target}: {path} is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses and pickles look it up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _failure(target, error) from error
    return module


def _look_first_in(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def _failure(target: str, error: BaseException) -> SetupError:
    """One sentence: what was raised, and where in the app."""
    if isinstance(error, SyntaxError):
        place = f"{error.filename}:{error.lineno}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        frames = [frame for frame in frames if frame.filename != __file__]
        # The user's own line tells more than the library's that it called.
        frames = [frame for frame in frames if _is_users(frame.filename)] or frames
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"
    said = " ".join(str(error).split())
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return SetupError(f"--app {target}: importing it failed at {place} with {what}")


def _is_users(filename: str) -> bool:
    if filename.startswith("<"):
        return False
    path = Path(filename).resolve()
    return not any(path.is_relative_to(place) for place in _NOT_USERS)


def _what_it_is(module: ModuleType, name: str, found: object) -> str:
    apps = sorted(key for key, value in vars(module).items() if isinstance(value, App))
    hint = f"; it has {', '.join(apps)}" if apps else "; create one with tradewind.App()"
    if not hasattr(module, name):
        return f"the module has no {name}{hint}"
    return f"{name} is a {type(found).__name__}, not a tradewind.App{hint}"
