"""Other queues beside ours: the scripts of the peers' harness, where that is on this machine.

A script takes `produce --how bulk|paced --n N --rate R` and prints {"n", "seconds", "cpu_s"}; as
`worker` it runs until it is ended and leaves records (bench/rig/records.py).
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.floors.loop import URL_VARIABLE
from bench.rig.processes import ROOT

HARNESS_VARIABLE = "PEERS_BENCH"  # the folder with the scripts; default: ../shared/bench
HOME_VARIABLE = "PEERS_HOME"  # the folder its setup.sh installed the peers into

_OPTIONS_VARIABLE = "BENCH_OPTS"


@dataclass(frozen=True, slots=True)
class Contender:
    """A queue that can be filled and drained from its own command line."""

    name: str
    command: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    most: int = 0  # tasks to drain; 0: as many as all

    def produce(self, how: str, n: int, rate: float = 50.0) -> list[str]:
        """The command that submits."""
        return [*self.command, "produce", "--how", how, "--n", str(n), "--rate", str(rate)]

    def worker(self) -> list[str]:
        """The command that works."""
        return [*self.command, "worker"]

    def at(self, url: str) -> dict[str, str]:
        """The environment that points it at a Redis."""
        return {**self.env, URL_VARIABLE: f"{url}/0"}


#: Always there.
FLOOR = Contender("floor", (sys.executable, "-m", "bench.floors.loop"), ROOT)


@dataclass(frozen=True, slots=True)
class _Peer:
    script: str
    home: str  # under PEERS_HOME
    options: Mapping[str, str]
    most: int = 0


# Options as that harness's README found them best. Each that is slow at any N drains fewer, so that
# a run ends: of these only BullMQ gets faster with N.
_PEERS = {
    "proto": _Peer("proto_peer.py", "v-floors", {"claim": "64", "run": "full", "results": "1"}),
    "bullmq": _Peer("bullmq_peer.mjs", "n-bullmq", {"concurrency": "100"}),
    "sidekiq": _Peer("sidekiq_peer.rb", "", {"concurrency": "10"}, most=50_000),
    "dramatiq": _Peer(
        "dramatiq_peer.py", "v-dramatiq", {"threads": "8", "prefetch": "200"}, most=10_000
    ),
    "streaq": _Peer("streaq_peer.py", "v-streaq", {"concurrency": "64"}, most=10_000),
}
NAMES = tuple(_PEERS)


def find(wanted: Sequence[str]) -> tuple[dict[str, Contender], dict[str, str]]:
    """Those of `wanted` that can run here, and why the others cannot."""
    found: dict[str, Contender] = {}
    missing: dict[str, str] = {}
    harness = Path(os.environ.get(HARNESS_VARIABLE, ROOT.parent / "shared" / "bench"))
    home = os.environ.get(HOME_VARIABLE, "")
    for name in wanted:
        script = harness / "peers" / _PEERS[name].script
        if not script.is_file():
            missing[name] = f"{script} is not there; {HARNESS_VARIABLE} names the harness's folder"
        elif not home:
            missing[name] = f"set {HOME_VARIABLE} to the folder that its setup.sh installed into"
        elif (contender := _contender(name, script, Path(home))) is None:
            missing[name] = f"it is not installed in {home}"
        else:
            found[name] = contender
    return found, missing


def _contender(name: str, script: Path, home: Path) -> Contender | None:
    peer = _PEERS[name]
    place = home / peer.home
    cwd = home
    if script.suffix == ".py":
        program = place / "bin" / "python"
        if not program.is_file():
            return None
        command = (str(program), str(script))
    else:
        program = shutil.which("node" if script.suffix == ".mjs" else "ruby")
        if program is None or not place.is_dir():
            return None
        command, cwd = (program, str(script)), place
    env = {
        _OPTIONS_VARIABLE: json.dumps(peer.options),
        "PYTHONPATH": str(script.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return Contender(name, command, cwd, env, peer.most)
