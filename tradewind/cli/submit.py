"""tradewind submit: one task, or a file of them."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from tradewind.cli.options import payload_of, task_options, to_options
from tradewind.cli.outcome import DONE, Failed, Unusable
from tradewind.cli.session import examples, json_option, router_option, with_client
from tradewind.cli.text import one_line
from tradewind.cli.unserved import UNSERVED, warn_unserved
from tradewind.errors import TaskDead, TaskEnded, TradewindError

if TYPE_CHECKING:
    from tradewind.client import Client, Receipt, TaskOptions, TaskRequest, TaskView

JSON_TYPE = "application/json"

# Submits under way at once from a file: enough to fill messages.
_UNDER_WAY = 512

# Problems of single lines that are printed; the rest is counted.
_SHOWN_PROBLEMS = 10


@click.command(
    short_help="Submit a task, or a file of them.",
    epilog=examples(
        """tradewind submit email.send '{"to": "a@example.org"}' --key user-42 --wait""",
        "tradewind submit report.render --label data-class=pii-eu --priority high",
        "tradewind submit --from tasks.jsonl",
    ),
)
@click.argument("name", required=False)
@click.argument("payload", required=False, metavar="[JSON or -]")
@click.option(
    "--from",
    "source",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    metavar="FILE.jsonl",
    help="Submit a task for each line: its payload, or without NAME an object with name, args and "
    'options such as {"name": "echo", "args": {}, "queue": "mail"}.',
)
@task_options
@click.option(
    "--wait",
    is_flag=True,
    help="Wait for the end and print the result; with --from a line for each task.",
)
@router_option
@json_option
def submit(
    name: str | None,
    payload: str | None,
    source: Path | None,
    router: str,
    *,
    wait: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Submit a task for the handler NAME; its payload is JSON, or read from stdin with -."""
    options = to_options(flags)
    if source is not None:
        if payload is not None:
            raise click.UsageError("give JSON or --from, not both")
        requests = list(_read(source, name, options))
        return with_client(router, lambda client: _many(client, requests, as_json, wait))
    if name is None:
        raise click.UsageError("give the NAME of a handler, or --from FILE.jsonl")
    args = payload_of(payload, options.get("content_type"))
    options.setdefault("content_type", JSON_TYPE)
    return with_client(
        router,
        lambda client: _one(client, name, args, options, as_json=as_json, wait=wait),
    )


async def _one(
    client: "Client",
    name: str,
    args: bytes,
    options: "TaskOptions",
    *,
    as_json: bool,
    wait: bool,
) -> int:
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    receipt = await client.submit(name, args, **options)
    if as_json and not wait:
        show.emit(receipt)
    elif not as_json:
        click.echo(_receipt_text(receipt), err=wait)
    if receipt.rule == UNSERVED:
        await warn_unserved(client, name, options.get("queue", "default"))
    if not wait:
        return DONE
    view = await client.wait(receipt.task_id)
    if as_json:
        show.emit(show.task_json(view))
    else:
        click.echo(show.result_text(view.result))
    return DONE


async def _many(
    client: "Client",
    requests: "list[TaskRequest]",
    as_json: bool,  # noqa: FBT001 - a flag
    wait: bool,  # noqa: FBT001 - a flag
) -> int:
    from rich.progress import Progress  # noqa: PLC0415 - rich is slow to import

    from tradewind.cli import show  # noqa: PLC0415

    room = asyncio.Semaphore(_UNDER_WAY)
    duplicates = 0
    unserved: set[tuple[str, str]] = set()
    err = show.console(err=True)
    with Progress(console=err, disable=not err.is_terminal, transient=True) as progress:
        bar = progress.add_task("completed" if wait else "accepted", total=len(requests))

        async def one(request: "TaskRequest") -> "Receipt | TaskView | TradewindError":
            nonlocal duplicates
            async with room:
                try:
                    receipt = await client.submit(request.name, request.args, **request.options)
                    duplicates += receipt.duplicate
                    where = (request.name, request.options.get("queue", "default"))
                    if receipt.rule == UNSERVED and where not in unserved:
                        unserved.add(where)
                        await warn_unserved(client, *where)
                    return await client.wait(receipt.task_id) if wait else receipt
                except TradewindError as error:
                    return error
                finally:
                    progress.advance(bar)

        outcomes = await asyncio.gather(*(one(request) for request in requests))
    problems = 0
    for number, outcome in enumerate(outcomes, 1):
        failed = isinstance(outcome, TradewindError)
        problems += failed
        if as_json:
            show.emit(_shown(outcome), line=True)
        elif wait:
            click.echo(_ending_text(number, outcome))
        if failed and (as_json or not wait) and problems <= _SHOWN_PROBLEMS:
            click.echo(f"task {number}: {one_line(str(outcome))}", err=True)
    if not as_json:
        said = "completed" if wait else "accepted"
        extra = f", {duplicates} of them duplicates" if duplicates else ""
        click.echo(f"{len(outcomes) - problems} of {len(outcomes)} {said}{extra}", err=wait)
    if problems:
        raise Failed(f"{problems} of {len(outcomes)} tasks failed; the first are named above.")
    return DONE


def _ending_text(number: int, outcome: "Receipt | TaskView | TradewindError") -> str:
    """Give the end of one task of a file as a line: its id, where it ended, what came of it."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.client import TaskView  # noqa: PLC0415 - gRPC is slow to import

    if isinstance(outcome, TaskView):
        result = show.result_text(outcome.result)
        return f"{outcome.task_id}  {outcome.state.value} in {outcome.region}  {result}"
    if isinstance(outcome, TaskDead):
        why = show.first_line(f"{outcome.kind}: {outcome.message}")
        return f"{outcome.task_id}  DEAD_LETTER in {outcome.region}  {why}"
    return one_line(f"task {number}: {outcome}")


def _shown(outcome: "Receipt | TaskView | TradewindError") -> Any:
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.client import TaskView  # noqa: PLC0415

    if isinstance(outcome, TaskEnded):
        return {"task_id": outcome.task_id, "region": outcome.region, "error": str(outcome)}
    if isinstance(outcome, TradewindError):
        return {"error": str(outcome)}
    return show.task_json(outcome) if isinstance(outcome, TaskView) else outcome


def _receipt_text(receipt: "Receipt") -> str:
    where = f"{receipt.task_id}  {receipt.state.value} in {receipt.region}"
    why = f"  ({receipt.rule})" if receipt.rule else ""
    notes: list[str] = []
    if receipt.duplicate:
        notes.append("duplicate: this is the first task's id")
    if receipt.possible_duplicate:
        notes.append("may be a duplicate: the region that would know is unreachable")
    if receipt.replication_unconfirmed:
        notes.append("stored, replication not confirmed yet")
    return "\n".join([where + why, *notes])


def _read(source: Path, name: str | None, options: "TaskOptions") -> "Iterator[TaskRequest]":
    """Check every line before anything is submitted."""
    from tradewind.client.specs import build_spec  # noqa: PLC0415 - gRPC is slow to import

    try:
        stream = click.open_file(str(source), "r", encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(source), error.strerror or "cannot be read") from None
    with stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                request = _request(line, name, options)
                build_spec(request.name, request.args, request.options)
            except (ValueError, TypeError, TradewindError) as error:
                problem = f"{source}, line {number}: {error}; nothing was submitted"
                raise Unusable(problem) from None
            yield request


def _request(line: str, name: str | None, options: "TaskOptions") -> "TaskRequest":
    from tradewind.client import TaskRequest  # noqa: PLC0415 - gRPC is slow to import

    value = json.loads(line)
    if name is not None:
        given: TaskOptions = {"content_type": JSON_TYPE, **options}
        return TaskRequest(name, line.strip().encode(), given)
    members = cast("dict[str, Any]", value if isinstance(value, dict) else {})
    handler = members.pop("name", None)
    if not isinstance(handler, str):
        raise TypeError('expected an object with a name, such as {"name": "echo", "args": {}}')
    args = members.pop("args", None)
    if args is not None and not isinstance(args, dict):
        raise TypeError("args must be an object: its members are the handler's arguments")
    own = cast("TaskOptions", members)
    return TaskRequest(handler, cast("dict[str, Any] | None", args), {**options, **own})
