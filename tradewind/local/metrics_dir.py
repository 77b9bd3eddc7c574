"""The directory in which the processes of one pool leave their metrics for their parent.

All of them hold a lock on it, which the kernel takes back however a process ends. So what nobody
holds was left behind by a pool that was killed. It goes with the last child that ends in order, or
else when the next pool starts. A process id in the name would not do: containers may share a
directory for temporary files, and no ids.
"""

import atexit
import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

from tradewind.errors import SetupError

VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"  # in the environment of a child: of prometheus_client
_PREFIX: Final = "tradewind-metrics-"
_LOOKS: Final = 20  # at a lock that a dying parent still holds: a second in all
_PAUSE_S: Final = 0.05


class MetricsDir:
    """Belongs to a parent."""

    def __init__(self) -> None:
        """Make one, and remove those that nobody holds. Raises SetupError."""
        try:
            _clear()
            self.path, self._held = _make()
        except OSError as error:
            raise SetupError(
                f"no directory for the metrics of all processes can be made ({error.strerror}); "
                "set TMPDIR to one that may be written"
            ) from None

    def close(self) -> None:
        """Remove it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)


def hold_inherited() -> None:
    """In a child: keep the directory for as long as this process lives, with or without parent."""
    path = os.environ.get(VARIABLE, "")
    if Path(path).name.startswith(_PREFIX):  # or it is somebody else's, for a single process
        held = _locked(path, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if held is not None:
            parent = os.getppid()
            _at_end(lambda: _leave(path, held, parent))


def _at_end(leave: Callable[[], None]) -> None:
    """Call `leave` when this process ends in order, or by SIGTERM before it listens to that."""

    def end(number: int, _frame: FrameType | None) -> None:
        leave()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    atexit.register(leave)
    signal.signal(signal.SIGTERM, end)


def _leave(path: str, held: int, parent: int) -> None:
    """Remove it if no parent will. One that was killed holds it until its last thread is gone."""
    for _ in range(_LOOKS):
        with contextlib.suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
            return
        if not _is_dying(parent):
            return
        time.sleep(_PAUSE_S)


def _is_dying(parent: int) -> bool:
    """Whether it is gone, or its first thread is: its children hear of that before it is all."""
    if os.getppid() != parent:
        return True
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{parent}/stat").read_bytes().rpartition(b")")[2].split()[0]
        return state in {b"Z", b"X"}  # proc(5)
    return False


def _make() -> tuple[str, int | None]:
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX)
        held = _locked(path, fcntl.LOCK_SH)
        if Path(path).exists():  # Another pool may have cleared it before we held it.
            return path, held
        if held is not None:
            os.close(held)


def _clear() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        held = _locked(str(path), fcntl.LOCK_EX | fcntl.LOCK_NB)
        if held is None:
            continue
        if os.fstat(held).st_uid == os.geteuid():
            shutil.rmtree(path, ignore_errors=True)
        os.close(held)


def _locked(path: str, how: int) -> int | None:
    """An open file that holds the lock; None if somebody else does, or no lock can be had."""
    with contextlib.suppress(OSError):
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(held, how)
        except OSError:
            os.close(held)
        else:
            return held
    return None
