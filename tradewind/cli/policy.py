"""tradewind policy: what a regions.yaml says, before anything runs on it."""

from pathlib import Path
from typing import Any

import click

from tradewind.cli.outcome import DONE
from tradewind.cli.session import examples, json_option


@click.group()
def policy() -> None:
    """Check a regions.yaml."""


@policy.command(epilog=examples("tradewind policy check regions.yaml"))
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@json_option
def check(file: Path, *, as_json: bool) -> int:
    """Check FILE; a mistake is named with line, column and key, and exits 2."""
    from tradewind import regions  # noqa: PLC0415 - YAML and pydantic are slow to import
    from tradewind.cli import show  # noqa: PLC0415 - so is rich

    fleet = regions.load(file)
    for warning in regions.warnings(fleet):
        click.echo(f"Warning: {file}: {warning}", err=True)
    if as_json:
        summary: dict[str, Any] = {
            "file": str(file),
            "version": fleet.version,
            "regions": list(fleet.regions),
            "rules": [rule.name for rule in fleet.rules],
            "queues": list(fleet.queues),
            "partitions": fleet.partitions,
        }
        show.emit(summary)
        return DONE
    groups = ", ".join(sorted(fleet.groups)) or "none"
    click.echo(
        f"{file} is valid: {len(fleet.regions)} regions ({', '.join(fleet.regions)}), "
        f"{len(fleet.rules)} rules, residency groups {groups}; version {fleet.version}"
    )
    return DONE
