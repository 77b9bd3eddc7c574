"""Reads on behind a mistake, so that one run shows them all.

What the schema refuses is replaced by something that it takes, only to let the checks behind it
look at the rest: a file with a mistake never becomes a fleet.
"""

import copy
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import ValidationError

from tradewind.regions.reader import Document, MisfitError, Tree, TreePath
from tradewind.regions.refusals import misfits
from tradewind.regions.schema import File

_ROUNDS: Final = 8  # a replacement may uncover the next refusal; the schema is 6 deep


_WHOLE: Final = frozenset({"on_dead"})  # half of one and half of another means nothing


@dataclass(frozen=True, slots=True)
class Mended:
    """A file to look at, though not to use, unless `misfits` is empty."""

    file: File | None  # None: too little is left of it
    misfits: list[MisfitError]
    replaced: set[TreePath]

    def doubtful(self, path: TreePath) -> bool:
        """Whether something was replaced at `path`, in it or around it: nothing follows from it."""
        return any(
            path[: len(other)] == other or other[: len(path)] == path for other in self.replaced
        )


def validated(document: Document) -> Mended:
    """Hold the file against the schema, with all that is wrong so far."""
    found = list(document.misfits)
    replaced = {misfit.path for misfit in found}
    tree = inherit(document.tree)
    for turn in range(_ROUNDS):
        try:
            return Mended(File.model_validate(tree), found, replaced)
        except ValidationError as error:
            if not turn:
                found += [m for m in misfits(error, document) if not _known(m.path, found)]
                tree = copy.deepcopy(tree)
            for finding in error.errors(include_url=False, include_input=False):
                replaced.add(finding["loc"])
                _mend(tree, finding["loc"], finding["type"])
    return Mended(None, found, replaced)


def inherit(tree: dict[str, Tree]) -> dict[str, Tree]:
    """Give every queue what `default` says and it does not: key by key, but _WHOLE at once."""
    queues = tree.get("queues")
    if not isinstance(queues, dict) or not isinstance(base := queues.get("default"), dict):
        return tree
    merged: dict[str, Tree] = {name: _merged(base, queue) for name, queue in queues.items()}
    return {**tree, "queues": merged}


def _merged(base: Tree, over: Tree) -> Tree:
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    return base | {
        key: _merged(base[key], value) if key in base and key not in _WHOLE else value
        for key, value in over.items()
    }


def _known(path: TreePath, found: list[MisfitError]) -> bool:
    """Whether the reader has already refused what stands there, or around it."""
    return any(path[: len(misfit.path)] == misfit.path for misfit in found)


def _mend(tree: dict[str, Tree], path: TreePath, kind: str) -> None:
    """Replace what stands at `path`, or leave it out where the schema has a default."""
    holder: Any = tree
    for depth, part in enumerate(path[:-1]):
        below = _child(holder, part)
        if not isinstance(below, dict | list):  # a URL in short: the finding is inside of it
            return _mend(tree, path[: depth + 1], kind)
        holder = cast("Any", below)
    last, value = path[-1], _child(holder, path[-1])
    if kind == "missing" or _is_required(path):
        holder[last] = _stand_in(path)
    elif kind == "list_type" and isinstance(value, str):
        holder[last] = [value]
    elif kind == "string_type" and not isinstance(value, dict | list | None):
        holder[last] = str(value)
    elif isinstance(holder, list):  # the others must keep their places
        _mend(tree, path[:-1], kind)
    else:
        holder.pop(last, None)
    return None


def _child(holder: Any, part: str | int) -> Any:
    if isinstance(holder, dict):
        return holder.get(part)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return holder[part] if isinstance(part, int) and part < len(holder) else None


def _is_required(path: TreePath) -> bool:
    match path:
        case ("version",) | ("regions",) | ("regions", _) | ("regions", _, "redis"):
            return True
        case ("rules", _) | ("rules", _, "name"):
            return True
        case _:
            return False


def _stand_in(path: TreePath) -> Tree:
    match path:
        case ("version",):
            return 1
        case ("regions",):
            return {}
        case ("regions", _):
            return {"redis": {}}
        case ("rules", index):
            return {"name": f"rule-{index}"}
        case ("rules", index, "name"):
            return f"rule-{index}"
        case _:
            return {}
