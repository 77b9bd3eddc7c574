"""Tables that fit the terminal, whatever it is: what people copy is never cut.

Where room is short, columns without a number to show give way first, then free text is folded. A
terminal that is narrower still gets a block of lines for each row.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tradewind.cli.text import clean

_GAP = "  "
_INDENT = "    "
_FOLDED = 12  # characters that free text keeps at least: most words fit
_NOTHING = frozenset({"", "0", "-"})
_LABEL = "bold"
_HEADER = "dim"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `right` for numbers, `folds` for free text.

    `optional`: may be left out where room is short and no row has anything in it. `decor`: may be
    left out whatever it holds.
    """

    title: str
    right: bool = False
    folds: bool = False
    optional: bool = False
    decor: bool = False


@dataclass(frozen=True, slots=True)
class _Row:
    cells: tuple[Text, ...]
    below: tuple[Text, ...]


class Sheet:
    """Rows under headers. Text given as str is cleaned; a Text is taken as it is."""

    def __init__(self, *columns: Column) -> None:
        self._columns = columns
        self._rows: list[_Row] = []

    def add(self, *cells: "Text | str", below: "Iterable[Text | str]" = ()) -> None:
        """Add a row, and lines that stand indented under it."""
        texts = tuple(_text(cell) for cell in cells)
        if len(texts) != len(self._columns):
            msg = f"{len(texts)} cells for {len(self._columns)} columns"
            raise ValueError(msg)
        self._rows.append(_Row(texts, tuple(_text(line) for line in below)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the rows out for `options.max_width` characters."""
        width = options.max_width
        shown = self._chosen(width)
        widths = self._widths(shown, width)
        if widths is None:
            yield from self._blocks(console, width)
            return
        titles = tuple(Text(column.title, _HEADER) for column in self._columns)
        yield from self._lines(console, titles, shown, widths)
        yield Text("─" * (sum(widths) + len(_GAP) * (len(widths) - 1)), _HEADER)
        for row in self._rows:
            yield from self._lines(console, row.cells, shown, widths)
            for line in row.below:
                yield from indented(console, line, _INDENT, width)

    def _chosen(self, width: int) -> list[int]:
        """Give the columns to show: all, or without those that may be left out, last ones first."""
        shown = list(range(len(self._columns)))
        leavable = [i for i in shown if self._columns[i].decor]
        leavable += [i for i in reversed(shown) if self._columns[i].optional and self._is_empty(i)]
        for index in leavable:
            if _total(self._natural(i) for i in shown) <= width:
                break
            shown.remove(index)
        return shown

    def _widths(self, shown: Sequence[int], width: int) -> list[int] | None:
        """Give each column's width, free text folded as far as needed; None if that is too wide."""
        widths = [self._natural(index) for index in shown]
        folding = [at for at, index in enumerate(shown) if self._columns[index].folds]
        while (excess := _total(widths) - width) > 0:
            at = max(folding, key=lambda each: widths[each], default=None)
            if at is None or widths[at] <= _FOLDED:
                return None
            # The widest gives way down to the next one, then that one does.
            others = (widths[each] for each in folding if widths[each] < widths[at])
            widths[at] = max(widths[at] - excess, *others, _FOLDED)
        return widths

    def _natural(self, index: int) -> int:
        cells = (row.cells[index].cell_len for row in self._rows)
        return max(len(self._columns[index].title), *cells, 0)

    def _is_empty(self, index: int) -> bool:
        return all(row.cells[index].plain in _NOTHING for row in self._rows)

    def _lines(
        self,
        console: Console,
        cells: Sequence[Text],
        shown: Sequence[int],
        widths: Sequence[int],
    ) -> Iterator[Text]:
        """Give one row: as many lines as its most folded cell has."""
        folded = [
            cells[index].wrap(console, max(width, 1), overflow="fold")
            for index, width in zip(shown, widths, strict=True)
        ]
        for parts in zip_longest(*folded):
            line = Text()
            for index, width, part in zip(shown, widths, parts, strict=True):
                cell = Text() if part is None else part.copy()
                cell.align("right" if self._columns[index].right else "left", width)
                line.append_text(cell).append(_GAP)
            line.rstrip()
            yield line

    def _blocks(self, console: Console, width: int) -> Iterator[Text]:
        for row in self._rows:
            facts = Facts()
            for column, cell in zip(self._columns, row.cells, strict=True):
                if column.title and not column.decor:
                    facts.add(column.title, cell)
            yield from facts.lines(console, width)
            for line in row.below:
                yield from indented(console, line, _INDENT, width)
            yield Text()


class Facts:
    """Labels and what stands behind them; nothing is said of what is empty."""

    def __init__(self) -> None:
        self._facts: list[tuple[str, Text]] = []

    def add(self, label: str, value: "Text | str | None") -> None:
        """Add a line, unless there is nothing to say."""
        if value:
            self._facts.append((label, _text(value)))

    def lines(self, console: Console, width: int) -> Iterator[Text]:
        """Give the lines, folded to `width` with the values under each other."""
        room = max((len(label) for label, _ in self._facts), default=0) + len(_GAP)
        for label, value in self._facts:
            for number, line in enumerate(indented(console, value, " " * room, width)):
                if number:
                    yield line
                else:
                    yield Text(label.ljust(room), _LABEL).append_text(line[room:])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the facts out for `options.max_width` characters."""
        yield from self.lines(console, options.max_width)


def indented(console: Console, text: Text, indent: str, width: int) -> Iterator[Text]:
    """Give `text` folded to `width`, every line behind `indent`."""
    room = max(width - len(indent), _FOLDED)
    for line in text.wrap(console, room, overflow="fold"):
        line.rstrip()
        yield Text(indent).append_text(line)


def _total(widths: Iterable[int]) -> int:
    each = list(widths)
    return sum(each) + len(_GAP) * (len(each) - 1)


def _text(value: Text | str) -> Text:
    return value if isinstance(value, Text) else Text(clean(value))
