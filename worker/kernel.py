"""What only the operating system can promise: that no process outlives the one it works for."""

import ctypes
import os
import signal
import sys
from typing import NoReturn

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def die_with_parent() -> None:
    """Have this process killed when the thread that started it has ended; on Linux only.

    Elsewhere the end of the socket has to do, which a handler that never lets go of the interpreter
    would not notice.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def end_group() -> NoReturn:
    """Kill this process and what it has started, if it leads a group of its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def kill_group(pid: int) -> None:
    """Kill the child `pid`, which leads a group, and what it has started.

    The group's id is its own as long as one of it lives, so that nobody else can be hit.
    """
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # gone; or a zombie, on macOS
        return
