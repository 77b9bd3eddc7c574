"""tradewind policy schema: for an editor that completes and checks a regions.yaml."""

import click

from tradewind.cli.outcome import DONE
from tradewind.cli.session import examples


@click.command(
    epilog=examples(
        "tradewind policy schema > regions.schema.json",
        "# and as the first line of regions.yaml, for editors with a YAML language server:",
        "# yaml-language-server: $schema=regions.schema.json",
    )
)
def schema() -> int:
    """Print the JSON Schema of regions.yaml.

    It knows every key, its type, its default and what it is for. Names that must exist and rules
    that can never hold are what `policy check` sees beyond it.
    """
    from tradewind.regions import json_schema  # noqa: PLC0415 - pydantic is slow to import

    click.echo(json_schema.published(), nl=False)
    return DONE
