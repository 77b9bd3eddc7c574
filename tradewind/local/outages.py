"""An outage to try: a region's Redis is taken away for as long as a file of its name asks for it.

`touch .tradewind/down/eu-west` has its redis-server killed and kept away, all of them if it has
several; `rm` of the file has it started again, on its data. `touch .tradewind/down/redis-eu-west.1`
takes one of several.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tradewind.local.errors import LocalSetupError
from tradewind.local.stores import Store
from tradewind.local.supervisor import Supervisor

LOOK_EVERY_S: Final = 0.5  # one directory, read twice a second: nobody waits for it


class Outages:
    """What is taken away of one fleet."""

    def __init__(
        self, directory: Path, stores: Mapping[str, Store], *, every_s: float = LOOK_EVERY_S
    ) -> None:
        """Make `directory`, or clear it of wishes that a run before has left. Raises OSError.

        `stores` by region.
        """
        self._directory, self._regions, self._every_s = directory, tuple(stores), every_s
        #: By what may be wished for.
        self._processes = {
            region: tuple(node.process for node in store.nodes) for region, store in stores.items()
        }
        self._processes |= {name: (name,) for names in self._processes.values() for name in names}
        self._out: set[str] = set()
        self._strangers: set[str] = set()
        self._is_gone = False
        directory.mkdir(parents=True, exist_ok=True)
        for file in map(directory.joinpath, self._processes):
            if file.is_dir() and not file.is_symlink():
                file.rmdir()
            else:
                file.unlink(missing_ok=True)

    async def follow(self, supervisor: Supervisor, say: Callable[[str], None]) -> None:
        """Do what the files ask for, until cancelled. `say` takes a sentence on each change."""
        while True:
            asked = self.asked(say)
            for stranger in sorted(asked - self._processes.keys() - self._strangers):
                self._strangers.add(stranger)
                say(f"no region {stranger} runs here; there are {', '.join(self._regions)}")
            for wish in [each for each in self._processes if each in asked - self._out]:
                self._out.add(wish)
                for process in self._processes[wish]:
                    supervisor.disable_restart(process)
                    supervisor.kill(process)
                say(self._told(wish))
            for wish in sorted(self._out - asked):
                try:
                    await self._revive(wish, supervisor)
                except LocalSetupError as error:  # tried again at the next look
                    say(f"{wish} is still out: {error}")
                else:
                    self._out.discard(wish)
                    say(self._told_back(wish))
            await asyncio.sleep(self._every_s)

    def asked(self, say: Callable[[str], None]) -> set[str]:
        """Return the names of the files there; where it cannot be read, none and a sentence."""
        try:
            asked = {file.name for file in self._directory.iterdir()}
        except OSError as error:  # removed, or another thing by now: so is every wish
            if not self._is_gone and not isinstance(error, FileNotFoundError):
                say(f"{self._directory} cannot be read, so no region is taken away: {error}")
            self._is_gone = True
            return set()
        self._is_gone = False
        return asked

    async def _revive(self, wish: str, supervisor: Supervisor) -> None:
        """Start together what nobody else wants away: nodes are ready once they see each other.

        Raises LocalSetupError.
        """
        others = [self._processes[other] for other in self._out - {wish}]
        wanted = [name for name in self._processes[wish] if not any(name in its for its in others)]
        done = await asyncio.gather(*map(supervisor.revive, wanted), return_exceptions=True)
        for failure in done:
            if isinstance(failure, BaseException):
                raise failure

    def _told(self, wish: str) -> str:
        count, file = len(self._processes[wish]), self._directory / wish
        if wish not in self._regions:
            return f"{wish} was killed; rm {file} starts it again"
        if count == 1:
            return f"{wish} is out: its redis-server was killed; rm {file} starts it again"
        what = f"the {count} processes of its Redis were killed"
        return f"{wish} is out: {what}; rm {file} starts them again"

    def _told_back(self, wish: str) -> str:
        if wish not in self._regions:
            return f"{wish} runs again"
        what = "redis-server" if len(self._processes[wish]) == 1 else "redis-servers"
        return f"{wish} has its {what} again; routers take it back by and by"
