"""A row: contenders that take turns, and questions about what they gave."""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from bench.figures import Metrics, Question
from bench.rig.lab import Lab

Take = Callable[[], Metrics]

#: Contenders by name, ready to be measured as often as one likes while a row is open.
Takes = Mapping[str, Take]
Opened = Generator[Takes]


@dataclass(frozen=True, slots=True)
class Row:
    """`open` prepares the contenders, and ends what it started."""

    name: str
    title: str
    request_id: str  # on, off, both: whether submits carried one
    open: Callable[[Lab], AbstractContextManager[Takes]]
    questions: tuple[Question, ...]
    repetitions: int = 0  # 0: as many as the run; fewer where one takes minutes
    usual: bool = True  # part of a run that names no rows
