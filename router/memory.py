"""How each region's Redis stands for memory, as probes find it: told in metrics and in the log.

A full one takes no new work and empties itself. One that evicts would delete tasks, and forget
which submits it has seen: nothing new is sent there, unless the operator allows it.
"""

import logging

from router.signs import Signs
from tradewind.metrics import REGION_FULL, REGION_MEMORY, forget
from tradewind.task import Probe

_log = logging.getLogger(__name__)


class Memories:
    """Passes on what probes say of memory, and tells whoever is to know when that changes."""

    def __init__(self, *, allow_eviction: bool) -> None:
        """`allow_eviction`: regions that evict are used all the same, and only warned of."""
        self._allow_eviction = allow_eviction
        self._full: dict[str, bool] = {}
        self._evicts: dict[str, str] = {}

    def take(self, name: str, signs: Signs, probe: Probe) -> None:
        """A probe of a region was answered."""
        signs.measured(full=probe.full)
        signs.evicts = bool(probe.evicts) and not self._allow_eviction
        REGION_MEMORY.labels(name).set(probe.memory)
        self._tell_full(name, full=probe.full)
        self._tell_evicts(name, probe.evicts)

    def forget(self, name: str) -> None:
        """The region has left the file, or is at another address now."""
        self._full.pop(name, None)
        self._evicts.pop(name, None)
        forget(REGION_MEMORY, name)
        forget(REGION_FULL, name)

    def _tell_full(self, name: str, *, full: bool) -> None:
        REGION_FULL.labels(name).set(full)
        was_full = self._full.get(name, False)
        self._full[name] = full
        if full and not was_full:
            _log.warning(
                "a region's Redis is full: it takes nothing new, and goes on with what it has",
                extra={"of": name},
            )
        elif was_full and not full:
            _log.info("a region's Redis has room again", extra={"of": name})

    def _tell_evicts(self, name: str, policy: str) -> None:
        was = self._evicts.get(name, "")
        self._evicts[name] = policy
        if policy and policy != was:
            what = (
                "a region's Redis would delete tasks to make room; it is used all the same"
                if self._allow_eviction
                else "a region's Redis would delete tasks to make room: nothing new is sent there"
            )
            mend = "CONFIG SET maxmemory-policy noeviction"
            _log.warning(what, extra={"of": name, "policy": policy, "mend": mend})
        elif was and not policy:
            _log.info("a region's Redis deletes no tasks any more", extra={"of": name})
