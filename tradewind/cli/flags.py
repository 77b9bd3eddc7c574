"""What the fields of requests are called on the command line: an error names what was typed."""

import re
from collections.abc import Mapping
from types import MappingProxyType

import click

from tradewind.errors import (
    IdempotencyKeyReused,
    InvalidTask,
    NoAnswer,
    OutcomeUnknown,
    Violation,
)

#: The flag or argument that fills each field, of a task, of a filter and of a question.
FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "task_id": "ID",
        "name": "NAME",
        "payload": "the payload",
        "queue": "--queue",
        "priority": "--priority",
        "affinity_key": "--key",
        "tenant": "--tenant",
        "labels": "--label",
        "residency": "--residency",
        "pin_region": "--region",
        "delay": "--delay",
        "expires": "--expires",
        "expires_at": "--expires",
        "timeout": "--timeout",
        "max_attempts": "--attempts",
        "idempotency_key": "--idempotency-key",
        "request_id": "--request-id",
        "content_type": "--content-type",
        "origin_region": "--origin",
        "region": "--region",
        "filter.region": "--region",
        "filter.queue": "--queue",
        "filter.name": "--name",
        "filter.error_kind": "--kind",
        "filter.error_contains": "--error",
        "filter.older_than": "--older-than",
        "filter.task_ids": "ID",
        "reason": "--reason",
        "rate_per_second": "--rate",
        "page_size": "--limit",
        "page_token": "--page-token",
    }
)

# Errors whose advice names fields. They quote no text of a caller's but ids.
_ADVISE = (IdempotencyKeyReused, NoAnswer, OutcomeUnknown)
_FIELD = re.compile(r"\b(request_id|idempotency_key)(=)?")


def with_arguments(error: InvalidTask, command: click.Command) -> InvalidTask:
    """Give the error in which what `command` takes as an argument is called as its usage has it."""
    named = {
        each.name: each.human_readable_name
        for each in command.params
        if isinstance(each, click.Argument) and each.metavar is None
    }
    return InvalidTask(
        [Violation(named.get(one.field, one.field), one.problem) for one in error.violations]
    )


def typed(error: Exception) -> str:
    """Give the error's sentence in the words of the command line."""
    if isinstance(error, InvalidTask):
        return "; ".join(
            f"{FLAGS.get(each.field, each.field)}: {each.problem}" for each in error.violations
        )
    if isinstance(error, _ADVISE):
        return _FIELD.sub(lambda found: FLAGS[found[1]] + (" " if found[2] else ""), str(error))
    return str(error)
