"""tradewind submit: one task, or a file of them."""

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from tradewind.cli.flags import typed
from tradewind.cli.held import held_text, remedy_text
from tradewind.cli.options import parse_json, payload_of, task_options, to_options
from tradewind.cli.outcome import DONE, Failed, Unusable
from tradewind.cli.session import examples, json_option, router_option, slow, with_client
from tradewind.cli.text import one_line
from tradewind.cli.unserved import is_unserved, warn_unserved
from tradewind.cli.waiting import Patience, wait_timeout_option, waiting_for
from tradewind.errors import NoAnswer, TaskDead, TaskEnded, TradewindError, WaitOver
from tradewind.policy.filters import NOBODY_RUNS_IT

if TYPE_CHECKING:
    from tradewind.client import Client, Receipt, TaskOptions, TaskRequest, TaskView
    from tradewind.client.specs import Args

JSON_TYPE = "application/json"

# Submits under way at once from a file: enough to fill messages.
_UNDER_WAY = 512

# Before its end by our clock a call may end by gRPC's.
_NEARLY_S = 0.1

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
@wait_timeout_option(
    "As --wait, for no longer than this, the submit included; then exit 1. A task that was taken "
    "goes on. With --from it counts for each task"
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
    wait_timeout: timedelta | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Submit a task for the handler NAME; its payload is JSON, or read from stdin with -."""
    wait = wait or wait_timeout is not None
    options, patience = to_options(flags), Patience(wait_timeout)
    if source is not None:
        if payload is not None:
            raise click.UsageError("give JSON or --from, not both")
        requests = list(read_tasks(source, name, options, "nothing was submitted"))
        lines = _Lines(requests, name, wait, wait_timeout, as_json)
        return with_client(
            router, lambda client: _many(client, lines), may_wait=True, within_s=patience.limit_s
        )
    if name is None:
        raise click.UsageError("give the NAME of a handler, or --from FILE.jsonl")
    args = payload_of(payload, options.get("content_type"))
    options.setdefault("content_type", JSON_TYPE)
    return with_client(
        router,
        lambda client: _one(
            client, name, args, options, as_json=as_json, wait=wait, patience=patience
        ),
        may_wait=True,
        within_s=patience.limit_s,
    )


async def _one(
    client: "Client",
    name: str,
    args: bytes,
    options: "TaskOptions",
    *,
    as_json: bool,
    wait: bool,
    patience: Patience,
) -> int:
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    async with slow("Still waiting for the router to take the task."):
        try:
            receipt = await _handed_in(client, name, args, options, patience)
        except NoAnswer as error:
            if patience.left_s() > _NEARLY_S:  # it is the router that had no more time
                raise
            raise Failed(one_line(typed(error))) from None
    if as_json and not wait:
        show.emit(receipt)
    elif not as_json:
        click.echo(_receipt_text(receipt), err=wait)
    if not wait:
        await _warn(client, receipt, name, options)
        return DONE
    async with waiting_for(receipt.task_id, patience):
        stop = f"Ctrl-C stops waiting, `tradewind cancel {receipt.task_id}` ends the task."
        await _warn(client, receipt, name, options, "" if patience.is_limited else stop)
        view = await client.wait(receipt.task_id)
    if as_json:
        show.emit(show.task_json(view))
    else:
        click.echo(show.result_text(view.result))
    return DONE


async def _handed_in(
    client: "Client", name: str, args: "Args", options: "TaskOptions", patience: Patience
) -> "Receipt":
    """Submit while there is patience. Raises as `Client.submit`."""
    from tradewind.client.core import DEADLINE_S  # noqa: PLC0415 - gRPC is slow to import

    left_s = min(DEADLINE_S, max(patience.left_s(), 0.001))
    return await client.submit(name, args, deadline=left_s, **options)


async def _warn(
    client: "Client", receipt: "Receipt", name: str, options: "TaskOptions", advice: str = ""
) -> None:
    """Warn on stderr of what keeps the task from starting."""
    if is_unserved(receipt):
        await warn_unserved(client, name, options.get("queue", "default"), advice=advice)
    _warn_held(receipt, name, options)


def _warn_held(receipt: "Receipt", name: str, options: "TaskOptions") -> None:
    """Warn on stderr of what an operator's order holds back."""
    why, region, queue = receipt.waits_for, receipt.region, options.get("queue", "default")
    if not why or why in NOBODY_RUNS_IT:
        return
    said = held_text(why, queue=queue, region=region, name=name)
    pinned = bool(options.get("pin_region"))
    remedy = remedy_text(why, queue=queue, region=region, pinned=pinned)
    click.echo(f"Warning: {said}; the task is kept and waits: {remedy}.", err=True)


@dataclass(frozen=True, slots=True)
class _Lines:
    """The tasks of a file, and what is asked of them."""

    requests: "list[TaskRequest]"
    name: str | None  # of the handler, given once for all
    wait: bool
    limit: timedelta | None  # for one task
    as_json: bool

    def problem(self, error: TradewindError) -> str:
        """Give the sentence; in the words of the file, if that holds more than payloads."""
        return one_line(str(error) if self.name is None else typed(error))


async def _ended(client: "Client", receipt: "Receipt", patience: Patience) -> "TaskView":
    left_s = patience.left_s() if patience.is_limited else None
    try:
        return await client.wait(receipt.task_id, left_s)
    except WaitOver:  # it speaks of what was left
        raise WaitOver(receipt.task_id, patience.limit_s) from None


async def _many(client: "Client", lines: _Lines) -> int:
    from rich.progress import Progress  # noqa: PLC0415 - rich is slow to import

    from tradewind.cli import show  # noqa: PLC0415

    requests, wait = lines.requests, lines.wait
    room = asyncio.Semaphore(_UNDER_WAY)
    accepted = duplicates = 0
    unserved: set[tuple[str, str]] = set()
    held: set[tuple[str, str]] = set()
    err = show.console(err=True)
    with Progress(console=err, disable=not err.is_terminal, transient=True) as progress:
        bar = progress.add_task("completed" if wait else "accepted", total=len(requests))

        async def one(request: "TaskRequest") -> "Receipt | TaskView | TradewindError":
            nonlocal accepted, duplicates
            async with room:
                patience = Patience(lines.limit)
                try:
                    receipt = await _handed_in(
                        client, request.name, request.args, request.options, patience
                    )
                    accepted += 1
                    duplicates += receipt.duplicate
                    where = (request.name, request.options.get("queue", "default"))
                    if is_unserved(receipt) and where not in unserved:
                        unserved.add(where)
                        await warn_unserved(client, *where)
                    if receipt.waits_for and where not in held:
                        held.add(where)
                        _warn_held(receipt, request.name, request.options)
                    return await _ended(client, receipt, patience) if wait else receipt
                except TradewindError as error:
                    return error
                finally:
                    progress.advance(bar)

        try:
            outcomes = await asyncio.gather(*(one(request) for request in requests))
        except asyncio.CancelledError:  # Ctrl-C
            said = f"Stopped; {accepted} of {len(requests)} tasks were accepted, and go on."
            click.echo(said, err=True)
            raise
    return _report(outcomes, duplicates, lines)


def _report(
    outcomes: "list[Receipt | TaskView | TradewindError]", duplicates: int, lines: _Lines
) -> int:
    """Print what came of each, the first problems on stderr, and the sum."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    wait, as_json, problems = lines.wait, lines.as_json, 0
    for number, outcome in enumerate(outcomes, 1):
        failed = isinstance(outcome, TradewindError)
        problems += failed
        if as_json:
            show.emit(_shown(outcome, lines), line=True)
        elif wait:
            click.echo(_ending_text(number, outcome, lines))
        if failed and (as_json or not wait) and problems <= _SHOWN_PROBLEMS:
            click.echo(f"task {number}: {lines.problem(outcome)}", err=True)
    if not as_json:
        said = "completed" if wait else "accepted"
        extra = f", {duplicates} of them duplicates" if duplicates else ""
        click.echo(f"{len(outcomes) - problems} of {len(outcomes)} {said}{extra}", err=wait)
    if problems:
        raise Failed(f"{problems} of {len(outcomes)} tasks failed; the first are named above.")
    return DONE


def _ending_text(number: int, outcome: "Receipt | TaskView | TradewindError", lines: _Lines) -> str:
    """Give the end of one task of a file as a line: its id, where it ended, what came of it."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.client import TaskView  # noqa: PLC0415 - gRPC is slow to import

    if isinstance(outcome, TaskView):
        result = show.result_text(outcome.result)
        return f"{outcome.task_id}  {outcome.state.value} in {outcome.region}  {result}"
    if isinstance(outcome, TaskDead):
        why = show.first_line(f"{outcome.kind}: {outcome.message}")
        return f"{outcome.task_id}  DEAD_LETTER in {outcome.region}  {why}"
    if isinstance(outcome, TradewindError):
        return f"task {number}: {lines.problem(outcome)}"
    return _receipt_text(outcome)


def _shown(outcome: "Receipt | TaskView | TradewindError", lines: _Lines) -> Any:
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.client import TaskView  # noqa: PLC0415

    if isinstance(outcome, TaskEnded):
        return {"task_id": outcome.task_id, "region": outcome.region, "error": str(outcome)}
    if isinstance(outcome, WaitOver):
        return {"task_id": outcome.task_id, "error": str(outcome)}
    if isinstance(outcome, TradewindError):
        return {"error": lines.problem(outcome)}
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
        notes.append("stored, but not confirmed to be as durable as its queue asks")
    return "\n".join([where + why, *notes])


def read_tasks(
    source: Path, name: str | None, options: "TaskOptions", otherwise: str
) -> "Iterator[TaskRequest]":
    """Read a file of tasks, each line checked. What is wrong ends with the word `otherwise`."""
    from tradewind.client.specs import build_spec  # noqa: PLC0415 - gRPC is slow to import

    try:
        stream = click.open_file(str(source), "rb")
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
                problem = f"{source}, line {number}: {error}; {otherwise}"
                raise Unusable(problem) from None
            yield request


def _no_such(option: str, known: "Collection[str]") -> str:
    near = get_close_matches(option[:100], list(known), n=1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    listed = ", ".join(("name", "args", *known))
    return f"no such option: {option}{meant}; a line may have {listed}"


def _request(line: bytes, name: str | None, options: "TaskOptions") -> "TaskRequest":
    from tradewind.client import TaskOptions, TaskRequest  # noqa: PLC0415 - slow to import

    value = parse_json(line)
    if name is not None:
        given: TaskOptions = {"content_type": JSON_TYPE, **options}
        return TaskRequest(name, line.strip(), given)
    members = cast("dict[str, Any]", value if isinstance(value, dict) else {})
    handler = members.pop("name", None)
    if not isinstance(handler, str):
        raise TypeError('expected an object with a name, such as {"name": "echo", "args": {}}')
    args = members.pop("args", None)
    if args is not None and not isinstance(args, dict):
        raise TypeError("args must be an object: its members are the handler's arguments")
    for option in members.keys() - TaskOptions.__annotations__.keys():
        raise TypeError(_no_such(option, TaskOptions.__annotations__))
    own = cast("TaskOptions", members)
    return TaskRequest(handler, cast("dict[str, Any] | None", args), {**options, **own})
