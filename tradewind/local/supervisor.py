"""Child processes in stages: started in order, kept alive, stopped in reverse order."""

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tradewind.local.errors import LocalSetupError
from tradewind.local.leash import leashed
from tradewind.startup import hangups_held

RESTART_FIRST_S = 0.2
RESTART_CAP_S = 10.0
# A process that lived this long was not failing at start, so its next restart is quick again.
RESTART_RESET_S = 10.0

# What a child gets after a second stop signal, which ours take as "now": a worker hands back what
# runs within 1 s (worker/service.py).
HURRY_S = 3.0
_SIGNAL_EVERY_S = 0.2

_READY_EVERY_S = 0.05
_LOG_TAIL_LINES = 12
_LOG_TAIL_BYTES = 4_000


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What to run, and when it counts as ready.

    `env` is added to the parent's environment. `ready` is asked until it gives True; without it a
    process is ready once it was started. Output goes to `log_path`, appended.
    """

    name: str
    argv: Sequence[str]
    log_path: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: Path | None = None
    ready: Callable[[], Awaitable[bool]] | None = None
    ready_timeout_s: float = 30.0
    stop_grace_s: float = 10.0
    stop_signal: signal.Signals = signal.SIGTERM


def restart_delay_s(failures: int, jitter: float) -> float:
    """Wait before a restart after `failures` short lives in a row (1 is the first).

    Doubles from RESTART_FIRST_S to RESTART_CAP_S; `jitter` in [0, 1) spreads the upper half, since
    what killed one child often killed its siblings.
    """
    # 2**16 is past the cap; more would only overflow.
    full_s = min(RESTART_CAP_S, RESTART_FIRST_S * 2 ** min(failures - 1, 16))
    return full_s * (0.5 + jitter / 2)


class Supervisor:
    """Runs stages of processes. Every child is leashed: it ends with this process, also by SIGKILL.

    Children live in sessions of their own, so that Ctrl-C reaches only the parent, which then
    stops them in order. Use from the main thread's loop (see `leashed`). `on_exit(name, status)`
    and `on_restart(name, pid)` report what `stop()` did not ask for; they must not raise.
    """

    def __init__(
        self,
        stages: Sequence[Sequence[ProcessSpec]],
        *,
        on_exit: Callable[[str, int], None] | None = None,
        on_restart: Callable[[str, int], None] | None = None,
    ) -> None:
        """Take the plan; nothing runs before `start()`."""
        self._stages = [[_Child(spec) for spec in stage] for stage in stages]
        self._children = {child.spec.name: child for stage in self._stages for child in stage}
        self._unready: list[str] = []
        self._on_exit = on_exit or _ignore
        self._on_restart = on_restart or _ignore
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._stopped: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start stage after stage, each once the one before is ready.

        If a child ends or is not ready in time, everything is stopped again and LocalSetupError
        tells what the child logged last.
        """
        try:
            for stage in self._stages:
                await _all_or_first_error(self._launch(child) for child in stage)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all children, last stage first: stop signal, grace, SIGKILL. May be called twice."""
        if self._stopped is None:
            self._stopping.set()
            self._stopped = asyncio.create_task(self._stop_stages())
        # Shielded: a caller that loses patience must not leave children behind.
        await asyncio.shield(self._stopped)

    def hurry(self) -> None:
        """Shorten a stop, under way or to come: a second stop signal, HURRY_S, SIGKILL."""
        self._hurrying.set()

    @property
    def unready(self) -> Sequence[str]:
        """The processes that `start` or `revive` waits for, in the order in which they began."""
        return tuple(self._unready)

    def pid_of(self, name: str) -> int | None:
        """Give the pid of the named process, or None while it is not running."""
        return self._children[name].pid

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal the named process, if it runs. It comes back unless `disable_restart` said no."""
        self._children[name].signal(number)

    def disable_restart(self, name: str) -> None:
        """Leave the named process ended once it ends, until `revive`."""
        self._children[name].may_restart = False

    async def revive(self, name: str) -> None:
        """Start the named process again if it is not running, and wait until it is ready.

        Raises LocalSetupError as `start` does; the other children stay.
        """
        child = self._children[name]
        child.may_restart = True
        if child.keeper is None or child.keeper.done():
            await self._launch(child)
        else:
            await child.until_ready(give_up_if_ended=False)

    async def _launch(self, child: "_Child") -> None:
        self._unready.append(child.spec.name)
        try:
            await self._launched(child)
        finally:
            self._unready.remove(child.spec.name)

    async def _launched(self, child: "_Child") -> None:
        async with child.changing:
            if self._stopping.is_set():
                raise LocalSetupError(
                    f"{child.spec.name} was not started: everything is being stopped"
                )
            try:
                await child.spawn()
            except OSError as error:
                raise LocalSetupError(f"{child.spec.name} cannot be started: {error}") from error
        try:
            await child.until_ready()
        finally:
            # Kept from now on even if it is not ready: stop() waits for keepers.
            child.keeper = asyncio.create_task(self._keep(child))

    async def _keep(self, child: "_Child") -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            born_at = loop.time()
            status = await child.ended()
            if self._stopping.is_set():
                return
            self._on_exit(child.spec.name, status)
            if not child.may_restart:
                return
            failures = 1 if loop.time() - born_at >= RESTART_RESET_S else failures + 1
            jitter = random.random()
            if not await self._respawn(child, restart_delay_s(failures, jitter)):
                return

    async def _respawn(self, child: "_Child", delay_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._stopping.wait()
        async with child.changing:
            # Asked under the lock: stop() must see either no process or the new one.
            if self._stopping.is_set() or not child.may_restart:
                return False
            try:
                await child.spawn()
            except OSError:
                # Out of processes or disk: the old exit counts again, with a longer wait.
                return True
        self._on_restart(child.spec.name, child.pid or 0)
        return True

    async def _stop_stages(self) -> None:
        for stage in reversed(self._stages):
            await asyncio.gather(*(child.stop(self._hurrying) for child in stage))


class _Child:
    """One process slot: its spec, and the process that fills it now."""

    def __init__(self, spec: ProcessSpec) -> None:
        self.spec = spec
        self.may_restart = True
        self.changing = asyncio.Lock()
        self.keeper: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._log_from = 0

    @property
    def pid(self) -> int | None:
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if self._process is not None and running else None

    async def spawn(self) -> None:
        self.spec.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.spec.log_path.open("ab") as log, hangups_held():
            self._log_from = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *leashed(self.spec.argv),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, **self.spec.env},
                cwd=self.spec.cwd,
                start_new_session=True,
            )

    async def until_ready(self, *, give_up_if_ended: bool = True) -> None:
        spec = self.spec
        if spec.ready is None:
            return
        try:
            async with asyncio.timeout(spec.ready_timeout_s):
                while not await spec.ready():
                    if give_up_if_ended:
                        self._must_run()
                    await asyncio.sleep(_READY_EVERY_S)
        except TimeoutError:
            raise LocalSetupError(
                f"{spec.name} was not ready after {spec.ready_timeout_s:g} s{self._log_tail()}"
            ) from None
        if give_up_if_ended:
            # Somebody else may have answered in its place, on the port that it could not get.
            self._must_run()

    async def ended(self) -> int:
        return 0 if self._process is None else await self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        if number == signal.SIGKILL and sys.platform != "linux":
            # The child is the leash there, and cannot pass SIGKILL on.
            self._kill_group()
        else:
            self._process.send_signal(number)

    async def stop(self, hurrying: asyncio.Event) -> None:
        async with self.changing:
            self.signal(self.spec.stop_signal)
        ended = asyncio.create_task(self.ended())
        hurried = asyncio.create_task(hurrying.wait())
        await asyncio.wait(
            {ended, hurried},
            timeout=self.spec.stop_grace_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if hurried.done():
            await self._hurry(ended)
        hurried.cancel()
        if not ended.done():
            self._kill_group()
        await ended
        if self.keeper is not None:
            await asyncio.wait([self.keeper])

    async def _hurry(self, ended: "asyncio.Task[int]") -> None:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + HURRY_S
        while not ended.done() and loop.time() < give_up_at:
            # More than once: a signal that comes while the first is still pending is not seen.
            self.signal(self.spec.stop_signal)
            await asyncio.wait({ended}, timeout=_SIGNAL_EVERY_S)

    def _kill_group(self) -> None:
        if self.pid is not None:
            # It leads its own session, so this takes what it started along.
            os.killpg(self.pid, signal.SIGKILL)

    def _must_run(self) -> None:
        if self._process is not None and self._process.returncode is not None:
            how = _status(self._process.returncode)
            raise LocalSetupError(f"{self.spec.name} ended at start ({how}){self._log_tail()}")

    def _log_tail(self) -> str:
        with self.spec.log_path.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_from, end - _LOG_TAIL_BYTES))
            text = log.read().decode(errors="replace")
        lines = text.strip().splitlines()[-_LOG_TAIL_LINES:]
        indented = "".join(f"\n    {line}" for line in lines) or " nothing"
        return f"; {self.spec.log_path} says:{indented}"


def _status(returncode: int) -> str:
    if returncode < 0:
        return f"killed by {signal.Signals(-returncode).name}"
    return f"exit status {returncode}"


def _ignore(_name: str, _number: int) -> None:
    pass


async def _all_or_first_error(work: Iterable[Awaitable[None]]) -> None:
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        for done in asyncio.as_completed(tasks):
            await done
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
