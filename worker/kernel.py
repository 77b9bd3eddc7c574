"""What only the operating system can promise: that no process outlives the one it works for."""

import asyncio
import contextlib
import ctypes
import fcntl
import os
import select
import signal
import sys
from typing import NoReturn

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def die_with(leash: int) -> None:
    """Have this process's group killed once nobody has the other end of the pipe `leash` open.

    On Linux the kernel does so, whatever the group's processes are about: it signals a pipe's end
    to its owner (fcntl(2), F_SETOWN and F_SETSIG), a group here. Elsewhere whoever listens to the
    worker has to, which a handler that never lets go of the interpreter would hold up.
    """
    if sys.platform == "linux":
        try:
            fcntl.fcntl(leash, fcntl.F_SETOWN, -os.getpgrp())
            fcntl.fcntl(leash, fcntl.F_SETSIG, signal.SIGKILL)
            flags = fcntl.fcntl(leash, fcntl.F_GETFL)
            fcntl.fcntl(leash, fcntl.F_SETFL, flags | os.O_ASYNC)
        except OSError:  # a sandbox that does not know of it: this process alone, then
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if _has_hung_up(leash):  # before we asked
        end_group()


def _has_hung_up(pipe: int) -> bool:
    look = select.poll()
    look.register(pipe, select.POLLIN)
    return bool(look.poll(0))


def watch(pid: int) -> int | None:
    """A file descriptor that can be read once the process has ended; None if there is none."""
    if sys.platform == "linux":
        try:
            return os.pidfd_open(pid)
        except OSError:  # it has ended and been reaped, or no descriptor is free
            return None
    return None


def reap(pid: int) -> tuple[bool, int | None]:
    """Whether the child `pid` has ended, and its exit status.

    None: it was taken from us, by a handler that waits for any child or ignores SIGCHLD.
    """
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return True, None
    return found == pid, os.waitstatus_to_exitcode(status) if found else None


def end_copies(loop: asyncio.AbstractEventLoop) -> None:
    """End a copy of this process that a handler has forked, as soon as it comes back to `loop`.

    It shares the loop's connections and would run on as a second process of our kind. A copy that
    executes a program, or ends by itself, is not affected.
    """

    def end() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed, or is another thread's
            loop.call_soon(os._exit, 0)

    os.register_at_fork(after_in_child=end)


def end_group() -> NoReturn:
    """Kill this process and what it has started, if it leads a group of its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def kill_group(pid: int) -> None:
    """Kill the child `pid`, which leads a group, and what it has started.

    The group's id is its own as long as one of it lives or is not reaped, so that nobody else can
    be hit.
    """
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # gone; or a zombie, on macOS
        return
