"""Finding a task by its id: birth region first, then where its pointers lead, then everywhere.

A task has one owner, and what a region answers says who: a record that is not MOVING is the
owner's; a MOVING record and a pointer name the next region to ask. NOT_FOUND needs a no from every
region.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from router.job import Deadline
from tradewind import ids
from tradewind.errors import InvalidTask, RegionSilent, StoreError, UnknownTask
from tradewind.ids import MalformedTaskId
from tradewind.ports import Reads
from tradewind.state import State
from tradewind.task import Pointer, Record

#: A region that has not answered for so long is silent; as a probe by default (health.timeout).
SILENT_AFTER_S: Final = 3.0
# A task on its way may reach a region that had just said no. It moves too seldom to do so twice.
_ROUNDS: Final = 2


class _Silent:
    """The region did not answer."""


_SILENT: Final = _Silent()
_Answer = Record | Pointer | _Silent | None


def parse(task_id: str) -> ids.ParsedId:
    """Read an id as a caller gave it. Raises InvalidTask."""
    try:
        return ids.parse(task_id)
    except MalformedTaskId as error:
        raise InvalidTask.field("task_id", str(error)) from None


class Lookup:
    """Reads tasks wherever they are."""

    def __init__(
        self, reads: Mapping[str, Reads], partitions: int, left: Iterable[str] = ()
    ) -> None:
        """`reads` by region name; `left`: regions that the file had once, as this router knows."""
        self._reads, self._partitions = reads, partitions
        self._left = {ids.region_code(name): name for name in left}
        self._by_code = {ids.region_code(name): name for name in reads}

    async def find(
        self, task_id: str, *, watch: bool = False, deadline: Deadline | None = None
    ) -> Record:
        """Return the task as its owner has it, or the source while the target knows nothing yet.

        With `watch`, every region that is asked reports later changes, too. Raises InvalidTask for
        a malformed id, UnknownTask if every region said no, RegionSilent if one did not answer: in
        time to say so before the `deadline`.
        """
        born = parse(task_id)
        if born.partition >= self._partitions:
            raise UnknownTask(task_id)
        birthplace = self._by_code.get(born.region_code)
        for _ in range(_ROUNDS):
            answers: dict[str, _Answer] = {}
            # Half of the time for the first: the others are to have some, too.
            first = deadline and deadline.half()
            await self._follow(birthplace, task_id, answers, watch=watch, deadline=first)
            if _best(answers.values()) is None:
                await self._ask_rest(task_id, answers, watch=watch, deadline=deadline)
            best = _best(answers.values())
            if best is not None:
                return best
            silent = {name for name, answer in answers.items() if answer is _SILENT}
            targets = {answer.target for answer in answers.values() if isinstance(answer, Pointer)}
            # A region that this router's file does not have, or not any more, did not say no.
            silent |= targets.difference(self._reads, {""})
            if born.region_code in self._left:
                silent.add(self._left[born.region_code])
            if silent:
                raise RegionSilent(sorted(silent))
            if not targets:
                break
        raise UnknownTask(task_id)

    async def _follow(
        self,
        place: str | None,
        task_id: str,
        answers: dict[str, _Answer],
        *,
        watch: bool,
        deadline: Deadline | None,
    ) -> None:
        """Ask `place`, and on to where its answer leads, each region once."""
        while place is not None and place in self._reads and place not in answers:
            answers[place] = await self._ask(place, task_id, watch=watch, deadline=deadline)
            place = _next_place(answers[place])

    async def _ask_rest(
        self,
        task_id: str,
        answers: dict[str, _Answer],
        *,
        watch: bool,
        deadline: Deadline | None,
    ) -> None:
        rest = [name for name in self._reads if name not in answers]
        found = await asyncio.gather(
            *(self._ask(name, task_id, watch=watch, deadline=deadline) for name in rest)
        )
        answers.update(zip(rest, found, strict=True))

    async def _ask(
        self, name: str, task_id: str, *, watch: bool, deadline: Deadline | None
    ) -> _Answer:
        reads = self._reads[name]
        left_s = SILENT_AFTER_S if deadline is None else min(SILENT_AFTER_S, deadline.left_s())
        try:
            async with asyncio.timeout(left_s):
                return await (reads.watch(task_id) if watch else reads.read(task_id))
        except (StoreError, TimeoutError):
            return _SILENT


def _next_place(answer: _Answer) -> str | None:
    if isinstance(answer, Pointer):
        return answer.target or None
    if isinstance(answer, Record) and answer.state is State.MOVING:
        return answer.target or None
    return None


def _best(answers: Iterable[_Answer]) -> Record | None:
    """The highest epoch answers; at the same one, the target of a move before its source."""
    records = [answer for answer in answers if isinstance(answer, Record)]
    return max(records, key=lambda r: (r.epoch, r.state is not State.MOVING), default=None)
