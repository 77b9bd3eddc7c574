"""regions.yaml: read strictly, checked whole, turned into frozen values (contract section 4).

    fleet = load("regions.yaml")

What is wrong with the file is a ConfigError: a sentence with line, column and key. Several mistakes
are one ConfigErrors, which has them all. Nothing is half applied, and no message or repr holds a
secret. A queue takes what it does not say from `queues.default`, key by key; so a backoff can never
be without a cap.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from tradewind.errors import ConfigErrors
from tradewind.fleet import Fleet, OnDead, RedisTarget
from tradewind.regions import build, checks
from tradewind.regions.checks import warnings
from tradewind.regions.hooks import on_dead
from tradewind.regions.reader import Document, MisfitError, TreePath, read, read_text
from tradewind.regions.repair import validated
from tradewind.regions.schema import File
from tradewind.regions.targets import target

__all__ = ["load", "loads", "warnings"]


def load(path: str | Path, env: Mapping[str, str] | None = None) -> Fleet:
    """Read the file at `path`. `env` (default: the process's own) fills in `${NAME}`.

    Relative paths in the file start from its directory. Raises ConfigError.
    """
    return loads(read_text(Path(path)), str(path), env)


def loads(text: str, name: str = "regions.yaml", env: Mapping[str, str] | None = None) -> Fleet:
    """Read the text of a file called `name`. Raises ConfigError."""
    document = read(text, name)
    mended = validated(document)
    file, found = mended.file, mended.misfits
    targets: dict[str, RedisTarget] = {}
    hooks: dict[str, OnDead | None] = {}
    if file is not None:
        given = os.environ if env is None else env
        further = [*checks.misfits(file, mended.doubtful)]
        for region, section in file.regions.items():
            try:
                targets[region] = target(section.redis, given, Path(name).parent)
            except MisfitError as misfit:
                further.append(_in_region(region, misfit, document))
        further += checks.same_server(targets)
        groups = {group for region in file.regions.values() for group in region.residency}
        hooks = _hooks(
            file,
            document,
            given,
            further,
            groups=None if mended.doubtful(("regions",)) else groups,
        )
        found += [misfit for misfit in further if not mended.doubtful(misfit.path)]
    if file is None or found:
        _refuse(document, found)
    return build.fleet(file, targets, hooks)


def _hooks(
    file: File,
    document: Document,
    env: Mapping[str, str],
    misfits: list[MisfitError],
    *,
    groups: set[str] | None,
) -> dict[str, OnDead | None]:
    """Who hears of dead tasks, by queue. What is inherited is wrong in `default` and only there.

    `groups`: those that some region is in; None if that is not known.
    """
    found: dict[str, OnDead | None] = {}
    for name in sorted(file.queues, key=lambda name: name != "default"):
        here: TreePath = ("queues", name, "on_dead")
        if document.at(here) is None:
            found[name] = found.get("default")
            continue
        try:
            found[name] = on_dead(
                file.queues[name].on_dead,
                env,
                Path(document.name).parent,
                groups=groups,
                queues=frozenset(file.queues),
            )
        except MisfitError as misfit:
            misfits.append(MisfitError((*here, *misfit.path), misfit.problem, at_key=misfit.at_key))
    return found


def _refuse(document: Document, found: list[MisfitError]) -> NoReturn:
    errors = sorted(map(document.error, found), key=lambda error: (error.line, error.column))
    raise errors[0] if len(errors) == 1 else ConfigErrors(errors)


def _in_region(region: str, misfit: MisfitError, document: Document) -> MisfitError:
    """Give what is wrong with an address its key, as the file spells it: `redis` may be the URL."""
    here: TreePath = ("regions", region, "redis")
    path = (*here, *misfit.path) if isinstance(document.at(here), dict) else here
    return MisfitError(path, misfit.problem, at_key=misfit.at_key)
