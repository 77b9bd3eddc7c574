"""tradewind policy: what a regions.yaml says, before anything runs on it."""

import click

from tradewind.cli.policy_cases import test
from tradewind.cli.policy_check import check
from tradewind.cli.policy_diff import diff
from tradewind.cli.policy_schema import schema


@click.group()
def policy() -> None:
    """Check a regions.yaml, test its decisions, see what a new one would change."""


for command in (check, test, diff, schema):
    policy.add_command(command)
