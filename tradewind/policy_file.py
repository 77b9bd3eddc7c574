"""The policy in force, and the file that it is read from again: all of it or nothing.

A file that cannot be used, or changes what no running process can, leaves the last good one in
force; a log line says where it is wrong, and `tradewind_policy_reload_failed` is 1 until the file
is in order.
"""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tradewind import regions
from tradewind.errors import ConfigError, SetupError
from tradewind.fleet import Fleet, RedisTarget
from tradewind.metrics import POLICY_INFO, POLICY_RELOAD_FAILED, forget
from tradewind.regions.reader import read_text
from tradewind.regions.watch import LOOK_EVERY_S, FileWatch

_log = logging.getLogger(__name__)
# In the environment of a pool's child: a copy of the file that its parent works by. What the file
# itself says may be wrong just now, and the child is to start all the same.
LAST_GOOD: Final = "TRADEWIND_LAST_GOOD_POLICY"
# In the environment of what `tradewind up` starts: where it runs each region's Redis, as JSON that
# `told` writes. It goes before the file's address; the version stays the file's.
REDIS_AT: Final = "TRADEWIND_REDIS_AT"

Taker = Callable[[Fleet], None]


class PolicyFile:
    """A regions.yaml that a process follows. Of one event loop but for its making."""

    def __init__(
        self, path: str, region: str, *, first: str = "", every_s: float = LOOK_EVERY_S
    ) -> None:
        """Read it. `region` is the process's own. Raises ConfigError.

        `first`: another file with the text to begin with, in its place. It is then read as soon as
        `run` does.
        """
        self.path = path
        self._region = region
        self._watch = FileWatch(path, every_s=every_s)  # first: what changes from now on is seen
        self._takers: list[Taker] = []
        self._one_by_one = asyncio.Lock()
        self._asked = asyncio.Event()
        self._redis_at = redis_at()
        self._text = read_text(Path(first or path))
        self._fleet = placed(regions.loads(self._text, path), self._redis_at)
        if first:
            self._asked.set()
        POLICY_INFO.labels(self._fleet.version).set(1)

    @property
    def fleet(self) -> Fleet:
        """What is in force."""
        return self._fleet

    @property
    def text(self) -> str:
        """What the file says that is in force."""
        return self._text

    def keep_copy(self, directory: str) -> str:
        """Write what is in force to a file in `directory`, for LAST_GOOD. Returns its path.

        Raises OSError.
        """
        path = Path(directory) / "regions.yaml"
        new = path.with_suffix(".new")
        new.write_text(self._text, encoding="utf-8")
        new.replace(path)  # a child may be reading the one before
        return str(path)

    def tell(self, taker: Taker) -> None:
        """Have `taker` hear of every fleet that comes into force, in the order of these calls.

        It takes it at once and as a whole, or raises SetupError before it has changed anything.
        """
        self._takers.append(taker)

    async def run(self) -> None:
        """Follow the file until cancelled, and what `ask` asks for."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._obey())

    def ask(self) -> None:
        """Have it read again soon, whether it has changed or not: it may name files that have."""
        self._asked.set()

    async def reload(self) -> Fleet:
        """Read it again and return what is in force now.

        Raises ConfigError if that is still the one before.
        """
        async with self._one_by_one:
            try:
                text, fleet, warnings = await asyncio.to_thread(self._read)
                if fleet != self._fleet:
                    self._take(fleet)
                    for warning in warnings:
                        extra = {"warning": warning, "version": fleet.version}
                        _log.warning("the policy file is in order and may surprise", extra=extra)
            except Exception as error:
                POLICY_RELOAD_FAILED.set(1)
                if isinstance(error, ConfigError):
                    extra = {"reason": str(error), "in_force": self._fleet.version}
                    _log.error(
                        "the policy file cannot be used; the last good one stays", extra=extra
                    )
                raise
            self._text = text
            POLICY_RELOAD_FAILED.set(0)
            return fleet

    def _read(self) -> tuple[str, Fleet, list[str]]:
        text = read_text(Path(self.path))
        fleet = placed(regions.loads(text, self.path), self._redis_at)
        if why := forbidden(self._fleet, fleet, self._region):
            raise ConfigError(self.path, why)
        return text, fleet, regions.warnings(fleet)

    def _take(self, fleet: Fleet) -> None:
        """Put it in force everywhere, without a turn of the event loop in between."""
        before = self._fleet
        try:
            for taker in self._takers:
                taker(fleet)
        except SetupError as error:
            raise ConfigError(self.path, str(error)) from None
        self._fleet = fleet
        forget(POLICY_INFO, before.version)
        POLICY_INFO.labels(fleet.version).set(1)
        extra = {"version": fleet.version, "before": before.version}
        _log.info("the policy file has changed and is in force", extra=extra)

    async def _follow(self) -> None:
        while True:
            try:
                async for _ in self._watch.changes():
                    await self._try()
            except Exception:  # noqa: BLE001 - no thread to look in: that passes, or it is asked to
                _log.exception("the policy file could not be looked at")
                await asyncio.sleep(LOOK_EVERY_S)

    async def _obey(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self._try()

    async def _try(self) -> None:
        try:
            await self.reload()
        except ConfigError:
            return  # it has been logged, and the next change of the file is the next try
        except Exception:  # noqa: BLE001 - a bug in here must not end what goes on with the old file
            _log.exception("the policy file could not be read again")


def placed(fleet: Fleet, elsewhere: Mapping[str, RedisTarget]) -> Fleet:
    """Return the same fleet with the Redis of these regions elsewhere."""
    moved = {
        name: replace(fleet.regions[name], redis=target)
        for name, target in elsewhere.items()
        if name in fleet.regions
    }
    return replace(fleet, regions={**fleet.regions, **moved})


def told(targets: Mapping[str, RedisTarget]) -> str:
    """REDIS_AT for these. It has no login and no TLS, as what `tradewind up` runs."""
    return json.dumps(
        {
            name: {
                "kind": target.kind,
                "nodes": target.nodes,
                "service": target.service,
                "through": dict(target.through),
            }
            for name, target in targets.items()
        }
    )


def redis_at() -> dict[str, RedisTarget]:
    """Return what REDIS_AT says in this process's environment. Raises ConfigError."""
    try:
        return {
            str(name): RedisTarget(
                given["kind"],
                tuple(given["nodes"]),
                service=given["service"],
                through=dict(given["through"]),
            )
            for name, given in json.loads(os.environ.get(REDIS_AT, "{}")).items()
        }
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise ConfigError(
            REDIS_AT, f"no JSON as `tradewind up` writes it ({error!r}): unset it"
        ) from None


def forbidden(old: Fleet, new: Fleet, region: str) -> str:
    """Return why a process of `region` that works by `old` cannot go on by `new`; empty: it can."""
    if new.partitions != old.partitions:
        return (
            f"partitions: {new.partitions}, and the data in force has {old.partitions}: this never "
            "changes while there is data; put the old number back"
        )
    if new.deployment != old.deployment:
        return (
            f"deployment: {new.deployment!r}, and the data in force belongs to {old.deployment!r}: "
            "this never changes while there is data; put the old name back"
        )
    if region not in new.regions:
        return (
            f"regions: {region} is missing, and this process stands in it; put it back, or stop "
            "the process first"
        )
    return ""
