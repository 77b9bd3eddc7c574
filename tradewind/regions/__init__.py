"""regions.yaml: read strictly, checked whole, turned into frozen values (contract section 4).

    fleet = load("regions.yaml")

Whatever is wrong with the file is one ConfigError: a sentence with line, column and key. Nothing
is half applied, and no message or repr holds a secret. A queue takes what it does not say from
`queues.default`, key by key; so a backoff can never be without a cap.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from tradewind.fleet import Fleet
from tradewind.regions import build, checks
from tradewind.regions.checks import warnings
from tradewind.regions.reader import Document, MisfitError, Tree, read, read_text
from tradewind.regions.refusals import first_misfit
from tradewind.regions.schema import File

__all__ = ["load", "loads", "warnings"]


def load(path: str | Path, env: Mapping[str, str] | None = None) -> Fleet:
    """Read the file at `path`. `env` (default: the process's own) fills in `${NAME}`.

    Relative paths in the file start from its directory. Raises ConfigError.
    """
    return loads(read_text(Path(path)), str(path), env)


def loads(text: str, name: str = "regions.yaml", env: Mapping[str, str] | None = None) -> Fleet:
    """Read the text of a file called `name`. Raises ConfigError."""
    document = read(text, name)
    try:
        return _fleet(document, os.environ if env is None else env)
    except MisfitError as misfit:
        raise document.error(misfit) from None


def _fleet(document: Document, env: Mapping[str, str]) -> Fleet:
    try:
        file = File.model_validate(_inherit(document.tree))
    except ValidationError as error:
        raise first_misfit(error, document) from None
    for misfit in checks.misfits(file):
        raise misfit
    fleet = build.fleet(file, env, Path(document.name).parent)
    for misfit in checks.same_server(fleet.regions.values()):
        raise misfit
    return fleet


def _inherit(tree: dict[str, Tree]) -> dict[str, Tree]:
    """Give every queue what `default` says and it does not."""
    queues = tree.get("queues")
    if not isinstance(queues, dict) or not isinstance(base := queues.get("default"), dict):
        return tree
    merged: dict[str, Tree] = {name: _merged(base, queue) for name, queue in queues.items()}
    return {**tree, "queues": merged}


def _merged(base: Tree, over: Tree) -> Tree:
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    return base | {
        key: _merged(base[key], value) if key in base else value for key, value in over.items()
    }
