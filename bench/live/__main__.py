"""The outage scripts of bench.sim at small scale, live beside simulated.

    python -m bench.live [--script NAME,...] [--seed N] [--keep]

Four embedded regions, as `tradewind up --wan` runs them, with real distances, one router each and
real workers; a tenth of the simulator's times; about a minute a script. Both sides read one
regions.yaml, and the same arrivals come to both. Exit status: 0 they agree in direction, no fence
was crossed and no submit failed that had a place; 1 not so; 2 wrong usage; 130
interrupted.
"""

import argparse
import asyncio
import logging
import math
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.live.plan import NAMES, plan
from bench.live.play import play
from bench.live.seen import Figures, disagreements, figures, middle
from bench.live.simulated import simulate
from bench.sim.report import table
from tradewind.local.errors import LocalSetupError

_SEEDS = 5  # of the simulator
_INTERRUPTED = 130  # 128 and the number of SIGINT, as shells say it
_HEAD = (
    "script",
    "",
    "tasks",
    "p50 s",
    "p99 s",
    "at home",
    "its share",
    "taken over by",
    "back s",
    "peak",
    "success",
    "fence",
    "twice",
    "lost",
    "changes",
    "verdict",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Play, simulate, compare and print."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    parser = argparse.ArgumentParser(
        "python -m bench.live",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--script", default=",".join(NAMES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep logs and ledgers")
    options = parser.parse_args(argv)
    names = options.script.split(",")
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"no script {unknown[0]}: {', '.join(NAMES)}")
    logging.getLogger("router").setLevel(logging.ERROR)  # the simulated ones
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: in order
    try:
        return _run(names, options.seed, keep=options.keep)
    except LocalSetupError as error:
        print(f"bench.live: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(names: Sequence[str], seed: int, *, keep: bool) -> int:
    rows: list[tuple[str, ...]] = [_HEAD]
    agrees = True
    for name in names:
        live, simulated = _compare(name, seed, keep=keep)
        found = disagreements(live, simulated)
        agrees = agrees and not found
        rows.append(_row(name, "live", live, "; ".join(found) or "agrees"))
        rows.append(_row("", "simulated", middle(simulated), ""))
        print(f"{name}: {rows[-2][-1]}", file=sys.stderr)
    print(table(rows))
    return 0 if agrees else 1


def _compare(name: str, seed: int, *, keep: bool) -> tuple[Figures, list[Figures]]:
    home = Path(tempfile.mkdtemp(prefix=f"tradewind-live-{name}-"))
    try:
        config = home / "regions.yaml"
        chosen = plan(name, config)
        simulated = [figures(chosen, simulate(chosen, seed + more)) for more in range(_SEEDS)]
        return figures(chosen, asyncio.run(play(chosen, config, home, seed))), simulated
    finally:
        if keep:
            print(f"{name}: {home}", file=sys.stderr)
        else:
            shutil.rmtree(home, ignore_errors=True)


def _row(script: str, where: str, of: Figures, verdict: str) -> tuple[str, ...]:
    before, during, after = of.shares
    return (
        script,
        where,
        f"{of.tasks}",
        f"{of.p50_s:.2f}",
        f"{of.p99_s:.2f}",
        f"{of.home:.0%}",
        f"{before:.0%} {during:.0%} {after:.0%}",
        of.taken_by,
        f"{of.back_s:.0f}" if math.isfinite(of.back_s) else "not yet",
        f"{of.peak:.2f}",
        f"{of.success:.2%}",
        f"{of.outside_fence}",
        f"{of.twice}",
        f"{of.lost}",
        f"{of.changes}",
        verdict,
    )


if __name__ == "__main__":
    sys.exit(main())
