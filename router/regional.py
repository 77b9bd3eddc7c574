"""Background work for each region, begun and ended as regions come into the file and leave it."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any


class Regional:
    """One task for each region that is followed. Of one event loop."""

    def __init__(self, work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """`work(region)` goes on until it is cancelled."""
        self._work = work
        self._wanted: dict[str, object] = {}
        self._begun: dict[str, tuple[object, asyncio.Task[None]]] = {}
        self._group: asyncio.TaskGroup | None = None

    def follow(self, wanted: Mapping[str, object]) -> None:
        """From now on work for these regions, by name: another object there, and it begins anew."""
        self._wanted = dict(wanted)
        if self._group is not None:
            self._tune(self._group)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._tune(group)
                await asyncio.get_running_loop().create_future()  # also while there is no region
        finally:
            self._group, self._begun = None, {}

    def _tune(self, group: asyncio.TaskGroup) -> None:
        for name, (subject, task) in list(self._begun.items()):
            if self._wanted.get(name) is not subject:
                task.cancel()
                del self._begun[name]
        for name, subject in self._wanted.items():
            if name not in self._begun:
                self._begun[name] = (subject, group.create_task(self._work(name)))
