"""regions.yaml: read strictly, checked whole, turned into frozen values.

    fleet = load("regions.yaml")

What is wrong with the file is a ConfigError: a sentence with line, column and key. Several mistakes
are one ConfigErrors, which has them all. Nothing is half applied, and no message or repr holds a
secret. A queue takes what it does not say from `queues.default`, key by key; so a backoff can never
be without a cap.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tradewind.fleet import Fleet, OnDead, RedisTarget
from tradewind.regions import build, checks
from tradewind.regions.advice import warnings
from tradewind.regions.hidden import AbsentError
from tradewind.regions.hooks import on_dead
from tradewind.regions.reader import Document, MisfitError, TreePath, read, read_text
from tradewind.regions.repair import validated
from tradewind.regions.schema import File
from tradewind.regions.targets import stand_in, target

__all__ = ["UNKNOWN_VERSION", "load", "loads", "warnings"]

UNKNOWN_VERSION = "unknown"  # of a file that was read without what it points to


def load(
    path: str | Path,
    env: Mapping[str, str] | None = None,
    *,
    without_secrets: bool = False,
    may_wait: bool = False,
) -> Fleet:
    """Read the file at `path`. `env` (default: the process's own) fills in `${NAME}`.

    Relative paths in the file start from its directory. `without_secrets`: variables that are not
    set and secrets' files that are not there are no mistake. What depends on them has a stand-in,
    and the version is UNKNOWN_VERSION: a fleet to look at, not to run. `may_wait`: a pipe will do,
    and is read to its end. Raises ConfigError.
    """
    text = read_text(Path(path), may_wait=may_wait)
    return loads(text, str(path), env, without_secrets=without_secrets)


def loads(
    text: str,
    name: str = "regions.yaml",
    env: Mapping[str, str] | None = None,
    *,
    without_secrets: bool = False,
) -> Fleet:
    """Read the text of a file called `name`, as `load` does. Raises ConfigError."""
    document = read(text, name)
    mended = validated(document)
    file, found = mended.file, mended.misfits
    targets: dict[str, RedisTarget] = {}
    hooks: dict[str, OnDead | None] = {}
    absent: list[MisfitError] = []
    if file is not None:
        given = os.environ if env is None else env
        further = [*checks.misfits(file, mended.doubtful)]
        for region, section in file.regions.items():
            try:
                targets[region] = target(section.redis, given, Path(name).parent)
            except AbsentError as misfit:
                targets[region] = stand_in(region)
                absent.append(_in_region(region, misfit, document))
            except MisfitError as misfit:
                further.append(_in_region(region, misfit, document))
        further += checks.same_server(targets)
        groups = {group for region in file.regions.values() for group in region.residency}
        hooks = _hooks(
            file,
            document,
            given,
            further,
            absent,
            groups=None if mended.doubtful(("regions",)) else groups,
        )
        further += [] if without_secrets else absent
        found += [misfit for misfit in further if not mended.doubtful(misfit.path)]
    if file is None or found:
        raise document.refusal(found)
    fleet = build.fleet(file, targets, hooks)
    return replace(fleet, version=UNKNOWN_VERSION) if absent else fleet


def _hooks(
    file: File,
    document: Document,
    env: Mapping[str, str],
    misfits: list[MisfitError],
    absent: list[MisfitError],
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
            below = MisfitError((*here, *misfit.path), misfit.problem, at_key=misfit.at_key)
            if isinstance(misfit, AbsentError):
                found[name] = None
                absent.append(below)
            else:
                misfits.append(below)
    return found


def _in_region(region: str, misfit: MisfitError, document: Document) -> MisfitError:
    """Give what is wrong with an address its key, as the file spells it: `redis` may be the URL."""
    here: TreePath = ("regions", region, "redis")
    path = (*here, *misfit.path) if isinstance(document.at(here), dict) else here
    return MisfitError(path, misfit.problem, at_key=misfit.at_key)
