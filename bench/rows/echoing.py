"""The bare echo server as a process."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench.rig.processes import Child, module, running

_READY_S = 30.0


@contextmanager
def echo_server(home: Path) -> Generator[tuple[str, Child]]:
    """Run it while the block runs: its address, and the process."""
    with running("echo", module("bench.floors.echo"), home) as child:
        child.until(lambda: child.log.read_bytes().endswith(b"\n"), _READY_S)
        yield f"127.0.0.1:{int(child.log.read_bytes().split()[-1])}", child
