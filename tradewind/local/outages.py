"""An outage to try: a region's Redis is taken away for as long as a file of its name asks for it.

`touch .tradewind/down/eu-west` has its redis-server killed and kept away; `rm` of the file has it
started again, on its data.
"""

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from tradewind.local.errors import LocalSetupError
from tradewind.local.supervisor import Supervisor

LOOK_EVERY_S: Final = 0.5  # one directory, read twice a second: nobody waits for it


class Outages:
    """The regions of one fleet that are taken away."""

    def __init__(
        self, directory: Path, regions: Collection[str], *, every_s: float = LOOK_EVERY_S
    ) -> None:
        """Make `directory`, or clear it of wishes that a run before has left. Raises OSError."""
        self._directory, self._regions, self._every_s = directory, regions, every_s
        self._out: set[str] = set()
        self._strangers: set[str] = set()
        self._is_gone = False
        directory.mkdir(parents=True, exist_ok=True)
        for file in map(directory.joinpath, regions):
            if file.is_dir() and not file.is_symlink():
                file.rmdir()
            else:
                file.unlink(missing_ok=True)

    async def follow(self, supervisor: Supervisor, say: Callable[[str], None]) -> None:
        """Do what the files ask for, until cancelled. `say` takes a sentence on each change."""
        while True:
            asked = self.asked(say)
            for stranger in sorted(asked - set(self._regions) - self._strangers):
                self._strangers.add(stranger)
                say(f"no region {stranger} runs here; there are {', '.join(self._regions)}")
            for region in [each for each in self._regions if each in asked - self._out]:
                self._out.add(region)
                supervisor.disable_restart(f"redis-{region}")
                supervisor.kill(f"redis-{region}")
                file = self._directory / region
                say(f"{region} is out: its redis-server was killed; rm {file} starts it again")
            for region in sorted(self._out - asked):
                try:
                    await supervisor.revive(f"redis-{region}")
                except LocalSetupError as error:  # tried again at the next look
                    say(f"{region} is still out: {error}")
                else:
                    self._out.discard(region)
                    say(f"{region} has its redis-server again; routers take it back by and by")
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
