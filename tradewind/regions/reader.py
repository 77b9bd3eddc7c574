"""A strict reader for one YAML document: a plain tree, and the place of everything in it.

YAML 1.2 core types only: `no`, `on`, `yes` and `y` are text. Mapping keys are always text, as
written. Refused, with line and column: duplicate keys, anchors and aliases (a small file could
unfold to gigabytes), tags, empty values (a file cut short would silently lose its rules), more than
one document.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tradewind.errors import ConfigError, ConfigErrors
from tradewind.limits import MIB

MAX_FILE_BYTES = 1 * MIB  # a hundred regions with a thousand rules are under 200 KiB
MAX_DEPTH = 16  # the schema is 6 deep
MAX_NODES = 50_000
_MAX_SHOWN = 300  # characters of a message or key
_MAX_DIGITS = 40  # more than any double or 64-bit number needs; int() of a long text is slow

Scalar = str | int | float | bool
Tree = Scalar | dict[str, "Tree"] | list["Tree"]
TreePath = tuple[str | int, ...]

# The core schema, YAML 1.2.2 section 10.3.2. Only plain (unquoted) scalars are looked at.
_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL_OR_HEX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_NAN = re.compile(r"\.(nan|NaN|NAN)")

# libyaml reads a mebibyte in a fraction of a second, the Python parser in some ten.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands; both count from 1."""

    line: int
    column: int


class MisfitError(Exception):
    """What stands at `path` of the tree cannot be used. `at_key`: the key itself is wrong.

    `place`: where it is, if what has that path stands elsewhere.
    """

    def __init__(
        self, path: TreePath, problem: str, *, at_key: bool = False, place: Place | None = None
    ) -> None:
        self.path, self.problem, self.at_key, self.place = path, problem, at_key, place
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Document:
    """The tree of one file, and where its keys and values stand."""

    name: str
    tree: dict[str, Tree]
    keys: Mapping[TreePath, Place] = field(repr=False)
    values: Mapping[TreePath, Place] = field(repr=False)
    misfits: tuple[MisfitError, ...] = ()  # what stands there has been replaced or left out

    def place(self, path: TreePath, *, at_key: bool = False) -> Place:
        """Return the place of `path`, or of what is nearest above it."""
        first, second = (self.keys, self.values) if at_key else (self.values, self.keys)
        while path:
            found = first.get(path) or second.get(path)
            if found is not None:
                return found
            # Something that is not there is shown at the key that should hold it.
            path, first, second = path[:-1], self.keys, self.values
        return Place(1, 1)

    def at(self, path: TreePath) -> Tree | None:
        """Return what stands at `path`, None if nothing does."""
        node: Tree = self.tree
        for part in path:
            if isinstance(node, dict) and part in node:
                node = node[str(part)]
            elif isinstance(node, list) and isinstance(part, int) and part < len(node):
                node = node[part]
            else:
                return None
        return node

    def refusal(self, misfits: Sequence[MisfitError]) -> ConfigError:
        """Give all of them, at least one, in the order of the file."""
        found = sorted(map(self.error, misfits), key=lambda error: (error.line, error.column))
        return found[0] if len(found) == 1 else ConfigErrors(found)

    def error(self, misfit: MisfitError) -> ConfigError:
        """Give a misfit its file, line and column."""
        place = misfit.place or self.place(misfit.path, at_key=misfit.at_key)
        return ConfigError(
            self.name,
            _one_line(misfit.problem),
            key=_one_line(dotted(misfit.path)),
            line=place.line,
            column=place.column,
        )


def dotted(path: TreePath) -> str:
    """Spell a path as people do: `rules[2].match.names[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _one_line(text: str) -> str:
    """Make a text that may quote the file fit for a message: short, and no control characters."""
    shown = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)


def read_text(path: Path, *, may_wait: bool = False) -> str:
    """Return the text of a small UTF-8 file. Raises ConfigError, one sentence each.

    `may_wait`: a pipe is read to its end, whoever writes to it and for how long.
    """
    name = str(path)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ConfigError(name, "is a directory; give the path of the file in it")
        if not (stat.S_ISREG(mode) or (may_wait and stat.S_ISFIFO(mode))):
            raise ConfigError(name, "is not a regular file")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(name, "there is no such file; check the path") from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "unknown reason"
        raise ConfigError(name, f"cannot be read: {reason}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(name, f"is larger than {MAX_FILE_BYTES // MIB} MiB; is it the right file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise ConfigError(
            name, "is not UTF-8 here; save it as UTF-8", line=line, column=column
        ) from None


def read(text: str, name: str) -> Document:
    """Read one document whose top is a mapping. Raises ConfigError with line and column."""
    if len(text) > MAX_FILE_BYTES:
        raise ConfigError(name, f"is larger than {MAX_FILE_BYTES // MIB} MiB; is it the right file")
    composer = _Composer()
    try:
        tree = composer.document(iter(yaml.parse(text, Loader=_Loader)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"is not YAML: {error.problem or error.context}"
        raise ConfigError(
            name, problem, line=mark and mark.line + 1, column=mark and mark.column + 1
        ) from None
    except yaml.YAMLError:
        raise ConfigError(name, "is not YAML: it holds a character that is not allowed") from None
    except UnicodeEncodeError:
        raise ConfigError(name, "is not UTF-8; save it as UTF-8") from None
    except MisfitError as misfit:
        spots = Document(name, {}, composer.keys, composer.values)
        raise spots.error(misfit) from None
    return Document(name, tree, composer.keys, composer.values, tuple(composer.misfits))


class _Composer:
    """Builds the tree from parser events, and refuses what the module's docstring lists.

    Goes on behind what it refuses if the rest is still plain: `misfits` are such.
    """

    def __init__(self) -> None:
        self.keys: dict[TreePath, Place] = {}
        self.values: dict[TreePath, Place] = {}
        self.misfits: list[MisfitError] = []

    def document(self, events: Iterator[yaml.Event]) -> dict[str, Tree]:
        next(events)  # StreamStart
        if isinstance(next(events), yaml.StreamEndEvent):
            raise MisfitError((), "the file is empty; start it with `version: 1`")
        tree = self._node(next(events), events, ())
        next(events)  # DocumentEnd
        after = next(events)
        if not isinstance(after, yaml.StreamEndEvent):
            self.values[("document",)] = _place(after)
            raise MisfitError(("document",), "a second document starts here; keep one a file")
        if not isinstance(tree, dict):
            raise MisfitError((), "must be a mapping (key: value) that starts with `version: 1`")
        return tree

    def _node(self, event: yaml.Event, events: Iterator[yaml.Event], path: TreePath) -> Tree:
        self.values[path] = _place(event)
        self._refuse_strange(event, path)
        if len(path) > MAX_DEPTH:
            raise MisfitError(path[:2], f"is nested more than {MAX_DEPTH} deep")
        if len(self.values) > MAX_NODES:
            raise MisfitError(path, f"the file has more than {MAX_NODES} entries")
        match event:
            case yaml.MappingStartEvent():
                return self._mapping(events, path)
            case yaml.SequenceStartEvent():
                return self._sequence(events, path)
            case yaml.ScalarEvent():
                return self._scalar(event, path)
            case _:  # a node is one of these: grammar of the parser
                raise MisfitError(path, "is not YAML that can be used here")

    def _mapping(self, events: Iterator[yaml.Event], path: TreePath) -> dict[str, Tree]:
        mapping: dict[str, Tree] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                here = (*path, "?")
                self.values[here] = _place(event)
                self._refuse_strange(event, here)
                raise MisfitError(here, "a key must be plain text")
            key = str(event.value)
            here = (*path, key)
            if key in mapping:
                problem = f"duplicate key, first given in line {self.keys[here].line}"
                self.misfits.append(MisfitError(here, problem, place=_place(event)))
                # Its value is read, so that the parser goes on, and forgotten.
                self._node(next(events), events, (*here, "duplicate"))
                continue
            self.keys[here] = self.values[here] = _place(event)
            self._refuse_strange(event, here)
            mapping[key] = self._node(next(events), events, here)
        return mapping

    def _scalar(self, event: yaml.ScalarEvent, path: TreePath) -> Scalar:
        try:
            return _scalar(event, path)
        except MisfitError as misfit:
            self.misfits.append(misfit)
            return ""

    def _sequence(self, events: Iterator[yaml.Event], path: TreePath) -> list[Tree]:
        items: list[Tree] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(self._node(event, events, (*path, len(items))))
        return items

    @staticmethod
    def _refuse_strange(event: yaml.Event, path: TreePath) -> None:
        if getattr(event, "anchor", None) is not None:
            raise MisfitError(path, "anchors (&) and aliases (*) are not allowed; write it out")
        if getattr(event, "tag", None) is not None:
            raise MisfitError(path, "tags (!) are not allowed; put text in quotes instead")


def _scalar(event: yaml.ScalarEvent, path: TreePath) -> Scalar:
    text = str(event.value)
    if event.style:  # quoted or a block: text, whatever it looks like
        return text
    if _NULL.fullmatch(text):
        raise MisfitError(path, "is empty; give it a value or remove the key", at_key=True)
    if _TRUE.fullmatch(text):
        return True
    if _FALSE.fullmatch(text):
        return False
    if _INT.fullmatch(text) or _OCTAL_OR_HEX.fullmatch(text) or _FLOAT.fullmatch(text):
        return _number(text, path)
    if infinite := _INFINITE.fullmatch(text):
        return float(f"{infinite[1]}inf")
    return float("nan") if _NAN.fullmatch(text) else text


def _number(text: str, path: TreePath) -> int | float:
    if len(text) > _MAX_DIGITS:
        raise MisfitError(path, f"a number may have at most {_MAX_DIGITS} characters")
    if _OCTAL_OR_HEX.fullmatch(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    return int(text) if _INT.fullmatch(text) else float(text)


def _place(event: yaml.Event) -> Place:
    mark = event.start_mark
    return Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
