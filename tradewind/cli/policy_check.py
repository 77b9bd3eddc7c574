"""tradewind policy check: what is wrong with a regions.yaml, and what will surprise."""

from collections.abc import Sized
from pathlib import Path
from typing import Any

import click

from tradewind.cli.outcome import DONE, USAGE
from tradewind.cli.session import examples, json_option
from tradewind.cli.text import one_line
from tradewind.errors import ConfigError, ConfigErrors


@click.command(
    short_help="Find mistakes in FILE, and what will surprise.",
    epilog=examples(
        "tradewind policy check regions.yaml",
        "tradewind policy check regions.yaml --without-secrets",
    ),
)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--without-secrets",
    is_flag=True,
    help="Take what is not here, variables and the files of secrets, for granted: for CI.",
)
@json_option
def check(file: Path, *, without_secrets: bool, as_json: bool) -> int:
    """Check FILE; each mistake is named with line, column and key, and exits 2.

    With --json an object: valid, errors (each with line, column, key and problem), warnings, and
    of a valid file what is in it.
    """
    from tradewind import regions  # noqa: PLC0415 - YAML and pydantic are slow to import
    from tradewind.cli import show  # noqa: PLC0415 - so is rich

    try:
        fleet = regions.load(file, without_secrets=without_secrets, may_wait=True)
    except ConfigError as error:
        if not as_json:
            raise
        show.emit({"file": str(file), "valid": False, "errors": _mistakes(error), "warnings": []})
        return USAGE
    warnings = regions.warnings(fleet)
    if as_json:
        summary: dict[str, Any] = {
            "file": str(file),
            "valid": True,
            "errors": [],
            "warnings": warnings,
            "version": fleet.version,
            "regions": list(fleet.regions),
            "rules": [rule.name for rule in fleet.rules],
            "queues": list(fleet.queues),
            "partitions": fleet.partitions,
        }
        show.emit(summary)
        return DONE
    for warning in warnings:
        click.echo(one_line(f"Warning: {file}: {warning}"), err=True)
    groups = ", ".join(sorted(fleet.groups)) or "none"
    unseen = fleet.version == regions.UNKNOWN_VERSION
    aside = ": secrets or addresses that it points to are not here" if unseen else ""
    click.echo(
        f"{file} is valid: {_count(fleet.regions, 'region')} ({', '.join(fleet.regions)}), "
        f"{_count(fleet.rules, 'rule')}, residency groups {groups}; version {fleet.version}{aside}"
    )
    return DONE


def _count(things: Sized, name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _mistakes(error: ConfigError) -> list[dict[str, Any]]:
    each = error.errors if isinstance(error, ConfigErrors) else (error,)
    return [
        {"line": one.line, "column": one.column, "key": one.key, "problem": one.problem}
        for one in each
    ]
