"""Find a redis-server 7.x, the older of the two versions that the tests run on.

    python tools/redis_seven.py      prints its path

The one that TRADEWIND_REDIS_SERVER_7 names, else PATH's, else Debian's or Ubuntu's package, which
is unpacked into .tradewind/ without being installed: no root, nothing on the machine changes.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VARIABLE = "TRADEWIND_REDIS_SERVER_7"
UNPACKED = ROOT / ".tradewind" / "redis-7"
MAJOR = 7
# The server is in redis-tools, as redis-check-rdb: one binary that looks at its own name. The
# others are what it links and a bare system lacks.
PACKAGES = ("redis-tools", "libatomic1", "libjemalloc2", "liblzf1")
_TIMEOUT_S = 120
ADVICE = (
    f"name a redis-server 7.x in {VARIABLE}, or put one on PATH (Debian 12, Ubuntu 24.04: "
    "`apt-get install redis-server`; elsewhere build https://redis.io/downloads with `make`)"
)


class MissingError(Exception):
    """There is none; the text says what to do."""


def find() -> Path:
    """Return the path of a redis-server 7.x that starts here. Raises MissingError."""
    if named := os.environ.get(VARIABLE):
        if trouble := _unfit(Path(named)):
            raise MissingError(f"{VARIABLE} names {named}, but {trouble}: correct the variable")
        return Path(named)
    on_path = shutil.which("redis-server")
    if on_path and not _unfit(Path(on_path)):
        return Path(on_path)
    unpacked = UNPACKED / "redis-server"
    if not _unfit(unpacked):
        return unpacked
    trouble = _unpack(UNPACKED)
    if trouble or (trouble := _unfit(unpacked)):
        raise MissingError(f"the tests on Redis 7 need a redis-server 7.x ({trouble}): {ADVICE}")
    return unpacked


def _unfit(path: Path) -> str:
    """Why this is no redis-server 7.x, as a clause; empty if it is one."""
    try:
        said = _run([str(path), "--version"]).stdout
    except OSError as error:
        return f"it does not start ({error.strerror})"
    version = re.search(r"\bv=(\d+)\.[\d.]+", said)
    if version is None:
        return "it does not start as a redis-server"
    return "" if int(version[1]) == MAJOR else f"it is version {version[0][2:]}"


def _unpack(home: Path) -> str:
    """Fetch the distribution's packages into `home`. Returns what went wrong, as a clause."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return "none is on PATH, and this is neither Debian nor Ubuntu"
    policy = _run(["apt-cache", "policy", PACKAGES[0]]).stdout
    candidate = re.search(r"Candidate: (?:\d+:)?(\d+)\.", policy)
    if candidate is None or int(candidate[1]) != MAJOR:
        return "none is on PATH, and apt offers none (`apt-get update` may help)"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    fetched = _run(["apt-get", "download", *PACKAGES], home)
    if fetched.returncode:
        return f"apt-get download failed: {' '.join(fetched.stderr.split())[-200:]}"
    for package in sorted(home.glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(home)])
        package.unlink()
    (home / "usr" / "bin" / "redis-server").symlink_to("redis-check-rdb")
    libraries = ":".join(str(path) for path in sorted((home / "usr" / "lib").glob("*-linux-*")))
    start = home / "redis-server"
    start.write_text(
        f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{home}/usr/bin/redis-server" "$@"\n'
    )
    start.chmod(0o755)
    return ""


def _run(command: Sequence[str], where: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=where,
        # A server refuses to start in a locale that the machine lacks; apt's words are parsed.
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )


def main() -> int:
    """Print the path, or what is missing."""
    try:
        sys.stdout.write(f"{find()}\n")
    except MissingError as missing:
        sys.stderr.write(f"{missing}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
