"""One watched task, read once for all who watch it."""

import asyncio

from tradewind.errors import RegionSilent
from tradewind.state import State
from tradewind.task import Record


class Topic:
    """The newest that is known of one task. However slow its watchers, nothing queues up here."""

    def __init__(self) -> None:
        """Nothing has been read yet."""
        self.watchers = 0
        self.changed = asyncio.Event()  # it is to be read (again)
        self.news = asyncio.Event()  # set, and another one in its place, when there is something
        self._latest: Record | None = None
        self._failure: Exception | None = None  # of the last read
        self._over = False
        self._begun, self._done = 0, 0  # reads, by number

    @property
    def unsure(self) -> bool:
        """Whether reports may not tell of its next change: it is under way, or not to be read."""
        moving = self._latest is not None and self._latest.state is State.MOVING
        return moving or self._failure is not None

    def may_lie_in(self, region: str) -> bool:
        """Whether a change of the task may be reported by `region`."""
        return self.unsure or self._latest is None or self._latest.region == region

    def ask(self) -> int:
        """Have it read; returns the number of the first read that begins after this call."""
        self.changed.set()
        return self._begun + 1

    def begin(self) -> int:
        """Return the number of the read that begins now."""
        self.changed.clear()
        self._begun += 1
        return self._begun

    def found(self, number: int, record: Record) -> None:
        """Take what a read brought. What was known never goes back."""
        is_news = _is_newer(record, self._latest)
        self._over = record.settled and not is_news
        self._latest = record if is_news else self._latest
        self._end(number, None)

    def failed(self, number: int, error: Exception) -> None:
        """Take why a read brought nothing."""
        self._end(number, error)

    def newer(self, last: Record | None, *, read: int) -> Record | None:
        """Return what is newer than `last`, once read number `read` is done.

        A region that falls silent after the first answer is waited for; whatever else made the last
        read fail is raised.
        """
        if self._done < read:
            return None
        if self._failure is not None and (
            last is None or not isinstance(self._failure, RegionSilent)
        ):
            raise self._failure
        return self._latest if _is_newer(self._latest, last) else None

    def is_over(self, *, read: int) -> bool:
        """Whether the task is settled, and was seen before at a newer revision."""
        return self._over and self._done >= read

    def wake(self) -> None:
        """Have all who watch look up."""
        self.news.set()
        self.news = asyncio.Event()

    def _end(self, number: int, failure: Exception | None) -> None:
        self._done, self._failure = number, failure
        self.wake()


def _is_newer(record: Record | None, last: Record | None) -> bool:
    return record is not None and (last is None or _order(record) > _order(last))


def _order(record: Record) -> tuple[int, int]:
    """A task under way bears its next epoch already, but its revisions go on from the last one."""
    moving = record.state is State.MOVING
    return (record.epoch - 1 if moving else record.epoch, record.revision)
