"""tradewind policy: what a regions.yaml says, before anything runs on it."""

from pathlib import Path
from typing import Any

import click

from tradewind.cli.outcome import DONE, USAGE
from tradewind.cli.session import examples, json_option
from tradewind.cli.text import one_line
from tradewind.errors import ConfigError, ConfigErrors


@click.group()
def policy() -> None:
    """Check a regions.yaml."""


@policy.command(epilog=examples("tradewind policy check regions.yaml"))
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@json_option
def check(file: Path, *, as_json: bool) -> int:
    """Check FILE; each mistake is named with line, column and key, and exits 2.

    With --json an object: valid, errors (each with line, column, key and problem), warnings, and
    of a valid file what is in it.
    """
    from tradewind import regions  # noqa: PLC0415 - YAML and pydantic are slow to import
    from tradewind.cli import show  # noqa: PLC0415 - so is rich

    try:
        fleet = regions.load(file)
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
    click.echo(
        f"{file} is valid: {len(fleet.regions)} regions ({', '.join(fleet.regions)}), "
        f"{len(fleet.rules)} rules, residency groups {groups}; version {fleet.version}"
    )
    return DONE


def _mistakes(error: ConfigError) -> list[dict[str, Any]]:
    each = error.errors if isinstance(error, ConfigErrors) else (error,)
    return [
        {"line": one.line, "column": one.column, "key": one.key, "problem": one.problem}
        for one in each
    ]
