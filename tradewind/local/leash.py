"""Run a command that ends when its parent ends, however the parent ends.

    python -I leash.py [--parent PID] [--poll] -- CMD...

On Linux the kernel signals the command itself (prctl PR_SET_PDEATHSIG, prctl(2)); elsewhere this
process stays in between, watches its parent, and passes signals and the exit status through.

Standard library only, and started by path: importing `tradewind` would cost every child the
start-up time of the SDK.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1

# The parent's death is noticed within this time where there is no PDEATHSIG.
_POLL_S = 0.2

# Ours, after the shells' convention for "cannot execute".
_CANNOT_EXECUTE = 126
_PARENT_GONE = 125
_WRONG_USAGE = 2


def leashed(argv: Sequence[str], *, poll: bool = False) -> list[str]:
    """Wrap `argv` so that it gets SIGTERM as soon as the calling process has died.

    On Linux the pid of the child is then the pid of the command itself. The kernel watches the
    calling *thread*: start children from the main thread, or from one that lives as long.
    """
    flags = ["--poll"] if poll else []
    # -I and -S: no user site, no environment, no site-packages: about 10 ms.
    return [sys.executable, "-I", "-S", __file__, "--parent", str(os.getpid()), *flags, "--", *argv]


def _parse(args: Sequence[str]) -> tuple[int, bool, list[str]]:
    parent, poll, rest = os.getppid(), False, list(args)
    while rest:
        flag = rest.pop(0)
        if flag == "--parent" and rest and rest[0].isdigit():
            parent = int(rest.pop(0))
        elif flag == "--poll":
            poll = True
        elif flag == "--":
            break
        else:
            rest.insert(0, flag)
            break
    return parent, poll, rest


def _ask_for_death_signal() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")


def _exec(command: list[str]) -> int:
    try:
        os.execvp(command[0], command)  # noqa: S606 - a shell is what we do not want
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror}\n")
    return _CANNOT_EXECUTE


def _watch(command: list[str], parent: int) -> int:
    try:
        child = subprocess.Popen(command)  # noqa: S603
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror}\n")
        return _CANNOT_EXECUTE

    def forward(number: int, _frame: FrameType | None) -> None:
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, forward)
    told = False
    while True:
        try:
            code = child.wait(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            if not told and os.getppid() != parent:
                child.terminate()
                told = True
            continue
        # 128 + n is how a shell reports death by signal n.
        return code if code >= 0 else 128 - code


def main(args: Sequence[str]) -> int:
    """Become the command, or stay as its keeper. Returns an exit status only if not replaced."""
    parent, poll, command = _parse(args)
    if not command:
        sys.stderr.write("usage: leash.py [--parent PID] [--poll] -- CMD...\n")
        return _WRONG_USAGE
    kernel_watches = sys.platform == "linux" and not poll
    if kernel_watches:
        _ask_for_death_signal()
    # Asked after prctl: a parent that died before it would otherwise never be noticed.
    if os.getppid() != parent:
        return _PARENT_GONE
    return _exec(command) if kernel_watches else _watch(command, parent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
