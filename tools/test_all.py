"""Run the test suite on every form and version of Redis: `make test-all`.

    python tools/test_all.py [PYTEST OPTIONS]

Forms (in memory, standalone, a Cluster of three primaries, behind Sentinels) are parameters inside
the tests. The default suite leaves out those that are marked `every_form`.
Above it, whatever runs on servers of the session runs once more with a Cluster in place of each.
Versions are runs: all tests on the wheel's Redis, then on Redis 7 those that depend on the server.
The last one is a minute of chaos, always of the same seed.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from tools import redis_seven  # noqa: E402 - needs the path above
from tradewind.local.errors import LocalSetupError  # noqa: E402
from tradewind.local.redis_server import SERVER_VARIABLE, find_server  # noqa: E402

NEWEST_MAJOR = 8
ON_THE_STORE = ("scripts", "contract", "machine", "rpc", "flow", "cases")
REGIONS_VARIABLE = "TRADEWIND_TEST_REGIONS"  # as tests/sharded.py
ON_CLUSTERS = ("rpc", "flow", "cases", "cli", "unit")


CHAOS = ("tests.chaos", "--seeds", "1", "--length-s", "60")


@dataclass(frozen=True, slots=True)
class Run:
    """One run: a module with its arguments, in this environment."""

    title: str
    env: Mapping[str, str]
    command: Sequence[str]


def runs(options: Sequence[str], results: Path) -> list[Run]:
    """All of them; those of pytest with `options`. Raises MissingError, before anything runs."""
    try:
        newest = find_server()
    except LocalSetupError as error:
        raise redis_seven.MissingError(str(error)) from None
    if newest.version[0] < NEWEST_MAJOR:
        raise redis_seven.MissingError(
            f"the tests on Redis {NEWEST_MAJOR} would run on {newest.path}, which is older: run "
            f"`pip install 'tradewind[local]'`, or name a newer server in {SERVER_VARIABLE}"
        )
    older = redis_seven.find()
    on_newest = {SERVER_VARIABLE: str(newest.path)}
    tests = ("pytest", "-m", "not long", *options)
    return [
        Run(f"all tests on {newest.path}", on_newest, [*tests, "tests"]),
        Run(
            "tests of routers and workers, each region a Cluster of three primaries",
            {**on_newest, REGIONS_VARIABLE: "cluster"},
            [*tests, *(f"tests/{name}" for name in ON_CLUSTERS)],
        ),
        Run(
            f"tests of the store on {older}",
            {SERVER_VARIABLE: str(older)},
            [*tests, *(f"tests/{name}" for name in ON_THE_STORE)],
        ),
        Run("a minute of chaos", on_newest, [*CHAOS, "--out", str(results)]),
    ]


def main(options: Sequence[str]) -> int:
    """Run each, and return the first exit status that is not 0."""
    with tempfile.TemporaryDirectory(prefix="chaos-results-") as results:
        try:
            planned = runs(options, Path(results))
        except redis_seven.MissingError as missing:
            sys.stderr.write(f"{missing}\n")
            return 1
        statuses: list[int] = []
        for run in planned:
            sys.stdout.write(f"=== {run.title}\n")
            sys.stdout.flush()
            command = [sys.executable, "-m", *run.command]
            done = subprocess.run(command, cwd=ROOT, env={**os.environ, **run.env}, check=False)
            statuses.append(done.returncode)
    for run, status in zip(planned, statuses, strict=True):
        sys.stdout.write(f"=== {'passed' if not status else f'failed ({status})'}: {run.title}\n")
    return next((status for status in statuses if status), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
