"""The parent of several routers: it starts processes, and asks them by gRPC how they are."""

import subprocess
import sys
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
_STARTS: Final = 150
_PARENT = f"""
import asyncio, threading
import router.processes as parent
from tradewind.startup import run_parent

async def main():
    pool = parent.Processes(["--version"], 1, "127.0.0.1:0")
    over = threading.Event()
    def ask():
        while not over.is_set():
            pool.ready()
    threading.Thread(target=ask).start()
    for _ in range({_STARTS}):
        child = await asyncio.create_subprocess_exec("/bin/true")
        assert await child.wait() == 0
    over.set()

run_parent(main())
"""


def test_a_parent_survives_that_it_asks_while_it_starts_processes() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", _PARENT],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
