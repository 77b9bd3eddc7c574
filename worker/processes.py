"""`--processes N`: the parent starts the workers, starts anew what dies, and speaks for all."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from prometheus_client.multiprocess import (
    mark_process_dead,  # pyright: ignore[reportUnknownVariableType]
)

from tradewind import metrics
from tradewind.local.leash import leashed
from worker.patience import Patience

_log = logging.getLogger(__name__)
READY_FD: Final = "TRADEWIND_READY_FD"  # a child writes a line to it when its readiness changes
_HEALTHY_S: Final = 60.0  # a child that lived for so long did its work
_WRONG_USAGE: Final = 2  # a child that says so will say so again


class Processes:
    """N worker processes with one face: readiness, metrics, signals, exit status."""

    def __init__(self, argv: Sequence[str], count: int) -> None:
        """`argv`: options of one child, without program."""
        self._argv, self._count = tuple(argv), count
        self._metrics_dir = tempfile.mkdtemp(prefix="tradewind-metrics-")
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._states = ["starting"] * count  # "" is ready
        self._stopping = False

    def ready(self) -> tuple[bool, str]:
        """Whether every process is, and if not, why not."""
        troubles = [f"process {n}: {why}" for n, why in enumerate(self._states, 1) if why]
        return not troubles, "; ".join(troubles)

    def metrics(self) -> bytes:
        """The sum over all processes, those that have died included."""
        return metrics.shared_exposition(self._metrics_dir)

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT has ended all children. Returns the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        try:
            codes = await asyncio.gather(*map(self._keep, range(self._count)))
        finally:
            shutil.rmtree(self._metrics_dir, ignore_errors=True)
        return max(codes)

    def _signalled(self) -> None:
        """Pass it on: each child counts its own signals."""
        self._stopping = True
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                child.terminate()

    async def _keep(self, place: int) -> int:
        """One place: a child in it until we stop."""
        patience = Patience()
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            code = await self._one(place)
            if loop.time() - began_s > _HEALTHY_S:  # its end has nothing to do with earlier ones
                patience.reset()
            if code == _WRONG_USAGE:
                self._signalled()
            if self._stopping:
                return code if code >= 0 else 1  # a signal ended it
            self._states[place] = "starting anew"
            _log.error("a worker process ended", extra={"place": place + 1, "status": code})
            await patience.wait()
            if self._stopping:
                return 0

    async def _one(self, place: int) -> int:
        reading, writing = os.pipe()
        command = leashed([sys.executable, "-P", "-m", "worker", *self._argv])
        env = {**os.environ, READY_FD: str(writing), "PROMETHEUS_MULTIPROC_DIR": self._metrics_dir}
        try:
            # A session of its own: a Ctrl-C must not reach it twice, by the terminal and by us.
            child = await asyncio.create_subprocess_exec(
                *command, pass_fds=(writing,), env=env, start_new_session=True
            )
        finally:
            os.close(writing)
        self._children[place] = child
        if self._stopping:
            child.terminate()
        listening = asyncio.ensure_future(self._listen(place, reading))
        code = await child.wait()
        await listening
        del self._children[place]
        mark_process_dead(child.pid, self._metrics_dir)
        return code

    async def _listen(self, place: int, reading: int) -> None:
        """Take a child's words on its readiness, until its end closes the pipe."""
        reader = asyncio.StreamReader()
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), pipe
            )
            while line := await reader.readline():
                self._states[place] = line.decode(errors="replace").strip()
            transport.close()
        self._states[place] = "ended"


def report_readiness(ready: bool, why: str) -> None:  # noqa: FBT001 - a callback
    """Tell the parent, if there is one; "" is ready."""
    if (number := os.environ.get(READY_FD)) is None:
        return
    line = "" if ready else " ".join(why.split()) or "not ready"
    with contextlib.suppress(OSError):  # the parent has gone, and this process soon will
        os.write(int(number), f"{line}\n".encode())
