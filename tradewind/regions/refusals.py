"""Says in one sentence what pydantic found, and where, with the nearest known key."""

import re
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from tradewind.regions.reader import Document, MisfitError, Tree, TreePath
from tradewind.regions.schema import File
from tradewind.regions.units import did_you_mean, is_number, nearest

# By pydantic's error type; {} is filled from the error's context, never with the input.
_SENTENCES = {
    "missing": "is required",
    "string_type": "must be text; put it in quotes",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "model_type": "must be a mapping (key: value)",
    "dict_type": "must be a mapping (key: value)",
    "list_type": "must be a list",
    "too_short": "must have at least {min_length} entry",
    "string_too_short": "must not be empty",
    "value_error": "{error}",
}
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:*?-]{0,62}")  # a name or a glob
_PATTERNS = {
    "key": "must be affinity_key, tenant or label:NAME",
    "name": "must be 1 to 63 letters, digits and ._- and start with a letter or digit",
}


def misfits(
    error: ValidationError, document: Document, model: type[BaseModel] = File
) -> list[MisfitError]:
    """Return every finding that is not a mere consequence of another one.

    `model` is what the document was held against.
    """
    findings = error.errors(include_url=False, include_input=False)
    misspelt = {
        (*found["loc"][:-1], meant)
        for found in findings
        if found["type"] == "extra_forbidden"
        for meant in nearest(str(found["loc"][-1]), _known_keys(found["loc"][:-1], model))
    }
    own = [
        found
        for found in findings
        # A queue's inherited value has no place of its own; the one in `default` is shown.
        if (found["loc"][0] != "queues" or found["loc"] in document.values)
        and (found["type"] != "missing" or found["loc"] not in misspelt)
    ]
    # Every consequence has a cause; if one was overlooked, all are better than none.
    return [_misfit(found, document, model) for found in own or findings]


def _misfit(found: Mapping[str, Any], document: Document, model: type[BaseModel]) -> MisfitError:
    path: TreePath = found["loc"]
    kind: str = found["type"]
    if kind == "extra_forbidden":
        problem = f"unknown key{did_you_mean(str(path[-1]), _known_keys(path[:-1], model))}"
        return MisfitError(path, problem, at_key=True)
    if kind == "string_pattern_mismatch":
        return MisfitError(path, _PATTERNS[str(path[-1])])
    if kind == "int_type" and is_number(document.at(path)):
        return MisfitError(path, "must be a whole number, without quotes")
    if kind == "list_type" and (item := _single(document.at(path), path)):
        return MisfitError(path, f"must be a list: write [{item}]")
    sentence = _SENTENCES.get(kind)
    if sentence is None:  # a message of pydantic's own; it is about types and bounds
        return MisfitError(path, str(found["msg"]))
    return MisfitError(path, sentence.format_map(found.get("ctx", {})))


def _single(value: Tree | None, path: TreePath) -> str:
    """What stands alone where a list should be, if it may be shown: an address may not."""
    shown = isinstance(value, str) and "redis" not in path and _WORD.fullmatch(value)
    return str(value) if shown else ""


def _known_keys(path: TreePath, model: type[BaseModel]) -> tuple[str, ...]:
    """Keys of the section at `path`, found by walking the model along it."""
    kind: Any = model
    for part in path:
        kind = _bare(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = kind.model_fields.get(str(part))
            kind = field and field.annotation
        else:  # dict[str, X] or list[X]: the part is a name or an index
            kind = get_args(kind)[-1]
    kind = _bare(kind)
    return tuple(kind.model_fields)


def _bare(kind: Any) -> Any:
    """Take Annotated[X, ...] and X | None down to X."""
    while get_origin(kind) in (Annotated, UnionType, Union):
        kind = get_args(kind)[0]
    return kind
