"""Replay a real arrival trace into embedded regions: `bench/replay.py TRACE.csv --speed 60`.

The work is in `replay_run`; this file only lets it be started by path, from any folder.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from bench.replay_run import main

    sys.exit(main())
