"""tradewind get, watch, cancel: one task, now, until its end, or to its end."""

from contextlib import aclosing
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from tradewind.cli.held import held_text, remedy_text
from tradewind.cli.outcome import DONE, FAILED
from tradewind.cli.session import examples, json_option, router_option, with_client
from tradewind.cli.waiting import Patience, wait_timeout_option, waiting_for

if TYPE_CHECKING:
    from rich.text import Text

    from tradewind.cli.sheet import Facts, Sheet
    from tradewind.client import Cancellation, Client, TaskView


@click.command(
    short_help="Show a task and where it has been.",
    epilog=examples("tradewind get 06fk3vw2r8b1q0c4n7s9d5m2ea"),
)
@click.argument("task_id", metavar="ID")
@router_option
@json_option
def get(task_id: str, router: str, *, as_json: bool) -> int:
    """Show a task: state, result or error, and every region it has been in.

    In --json, null stands for what there is not, or not yet. `timeout` and `max_attempts` are
    those that the submit gave; null there means those of the handler, or else of the queue.
    """
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    view = with_client(router, lambda client: client.get(task_id))
    if as_json:
        show.emit(show.task_json(view))
        return DONE
    print_task(view)
    return DONE


def print_task(view: "TaskView", *, payload: bool = False) -> None:
    """Print everything about a task, `payload` only if asked for, and where it has been."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    out = show.console()
    made = facts(view)
    if payload:
        made.add("payload", "dropped: memory" if view.payload_omitted else show.payload_text(view))
    out.print(made)
    if len(view.hops) > 1:
        out.print()
        out.print(hops_sheet(view))


@click.command(
    short_help="Follow a task until its end.",
    epilog=examples("tradewind watch 06fk3vw2r8b1q0c4n7s9d5m2ea"),
)
@click.argument("task_id", metavar="ID")
@wait_timeout_option("Watch no longer than this; then exit 1. The task goes on")
@router_option
@json_option
def watch(task_id: str, wait_timeout: timedelta | None, router: str, *, as_json: bool) -> int:
    """Follow a task until nothing can change it any more. Exits 1 unless it completed."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    out, patience = show.console(), Patience(wait_timeout)

    async def follow(client: "Client") -> int:
        code = FAILED
        async with waiting_for(task_id, patience), aclosing(client.watch(task_id)) as views:
            async for view in views:
                if as_json:
                    show.emit(show.task_json(view), line=True)
                else:
                    out.print(change(view), soft_wrap=True)
                code = DONE if view.state.value == "COMPLETED" else FAILED
        return code

    return with_client(router, follow, may_wait=True)


@click.command(
    short_help="Cancel a task.",
    epilog=examples("tradewind cancel 06fk3vw2r8b1q0c4n7s9d5m2ea"),
)
@click.argument("task_id", metavar="ID")
@router_option
@json_option
def cancel(task_id: str, router: str, *, as_json: bool) -> int:
    """Cancel a task, wherever it is. Exits 1 if it had ended otherwise before.

    A task that runs is asked to stop; if its handler has not stopped after 2 s, that is said, and
    another cancel tells how it went.
    """
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    done = with_client(router, lambda client: client.cancel(task_id))
    if as_json:
        show.emit(
            {
                "cancelled": done.cancelled,
                "requested": done.requested,
                "task": show.task_json(done.task),
            }
        )
    else:
        click.echo(cancel_text(done))
    return DONE if done.cancelled or done.requested else FAILED


def cancel_text(done: "Cancellation") -> str:
    """Say what came of a cancel."""
    view = done.task
    if done.cancelled:
        return f"{view.task_id}  CANCELLED in {view.region}"
    if done.requested:
        return (
            f"{view.task_id}  still runs in {view.region}; its worker was told to stop: "
            "watch it, or cancel it again, to see that it has"
        )
    return f"{view.task_id}  not cancelled: {view.state.value} in {view.region} before"


def change(view: "TaskView") -> "Text":
    """Give what is new about a task that is watched, as one line."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    state = view.state.value
    said = show.state(f"{state:<11}").append(f"  {view.region}")
    if state == "COMPLETED":
        return said.append(f"  {attempt_text(view)}: {show.result_text(view.result)}")
    if state == "PROCESSING":
        said.append(f"  {attempt_text(view)}")
        if view.progress is not None:
            said.append(f"  {show.first_line(progress_text(view))}")
        if view.cancel_requested:
            said.append("  cancel requested")
    elif _has_failed(view):
        said.append(f"  {show.first_line(failure_text(view))}")
    elif origin := moved_text(view):
        said.append(f"  {origin}")
    if held := _held(view):
        said.append(f"  waits: {held}")
    if view.next_attempt_at is not None:
        again = "runs again" if view.attempts or view.crashes else "runs"
        said.append(f"; {again} at {show.clock(view.next_attempt_at)}")
    return said


def moved_text(view: "TaskView") -> str:
    """Say where a task that has not started came from, why and when; empty if it has not moved."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    if len(view.hops) < 2 or view.attempts or view.state.value not in {"PENDING", "SCHEDULED"}:
        return ""
    last = view.hops[-2]
    when = f" at {show.clock(last.ended_at)}" if last.ended_at is not None else ""
    return show.first_line(f"from {last.region}{when}{last.reason and f' ({last.reason})'}")


def _held(view: "TaskView") -> str:
    return held_text(view.waits_for, queue=view.queue, region=view.region, name=view.name)


def _has_failed(view: "TaskView") -> bool:
    """Whether its error is of now. A redriven task starts afresh, but keeps its last error."""
    ran = view.attempts or view.crashes or view.state.value == "DEAD_LETTER"
    return view.error is not None and bool(ran)


def attempt_text(view: "TaskView") -> str:
    """Give how far the attempts in the present region have come."""
    most = f" of {view.max_attempts}" if view.max_attempts else ""
    return f"attempt {view.attempts}{most}"


def progress_text(view: "TaskView") -> str:
    """Give what the handler last said of itself; empty if it said nothing."""
    if view.progress is None:
        return ""
    note = f" {view.progress.note}" if view.progress.note else ""
    return f"{view.progress.fraction:.0%}{note}"


def failure_text(view: "TaskView") -> str:
    """Say how the last attempt failed; empty if none did.

    The kind is that of a death, or of an attempt that was cut short; a failure that will be
    retried has none.
    """
    if view.error is None:
        return ""
    kind = view.error.kind
    if kind == "crashed" and view.crashes:  # a crash uses no attempt
        how = f"{kind} after {crashes_text(view)}"
    elif not view.attempts:
        how = kind or "failed"
    else:
        how = f"{kind} at {attempt_text(view)}" if kind else f"{attempt_text(view)} failed"
    return f"{how}: {view.error.message}"


def crashes_text(view: "TaskView") -> str:
    """Give how often it took its process with it."""
    return f"{view.crashes} crash" if view.crashes == 1 else f"{view.crashes} crashes"


def facts(view: "TaskView") -> "Facts":
    """Give everything about a task but where it has been."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.sheet import Facts  # noqa: PLC0415

    state = view.state.value
    most = f" of {view.max_attempts}" if view.max_attempts else ""
    made = Facts()
    made.add("task", view.task_id)
    made.add("name", f"{view.name}  (queue {view.queue}, {view.priority.lower()})")
    asked = ", cancel requested" if view.cancel_requested else ""
    made.add("state", show.state(state).append(asked))
    if held := _held(view):
        remedy = remedy_text(
            view.waits_for, queue=view.queue, region=view.region, pinned=bool(view.pin_region)
        )
        made.add("waits", f"{held}{remedy and f'; {remedy}'}")
    made.add("region", f"{view.region}, partition {view.partition}")
    made.add("fence", ", ".join(view.fence))
    made.add("pinned to", view.pin_region)
    crashes = f", and {crashes_text(view)}" if view.crashes else ""
    made.add("attempts", f"{view.attempts}{most}{crashes}")
    made.add("progress", progress_text(view))
    made.add("tenant", view.tenant)
    made.add("labels", ", ".join(f"{key}={value}" for key, value in sorted(view.labels.items())))
    made.add("affinity key", view.affinity_key)
    made.add("idempotency key", view.idempotency_key)
    made.add("created", show.moment(view.created_at))
    made.add("started", show.moment(view.started_at))
    made.add("finished", show.moment(view.finished_at))
    made.add("next attempt", show.moment(view.next_attempt_at))
    made.add("expires", "" if view.settled else show.moment(view.expires_at))
    if state == "COMPLETED":
        result = "dropped: memory" if view.result_omitted else show.result_text(view.result)
        made.add("result", result)
    if view.error is not None:
        label = "error" if state == "DEAD_LETTER" else "last failure"
        kind = f"{view.error.kind}: " if view.error.kind else ""
        made.add(label, f"{kind}{view.error.message}")
        made.add("traceback", view.error.traceback.rstrip())
    made.add("not moved on", view.failover)
    made.add("fingerprint", view.fingerprint)
    return made


def hops_sheet(view: "TaskView") -> "Sheet":
    """Give every stay of a task, oldest first: since when, and until when.

    A stay begins as the one before ends: how long a task was under way counts to the one after.
    """
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.sheet import Column, Sheet  # noqa: PLC0415

    zone = show.zone(view.created_at, *(stay.began_at for stay in view.hops))
    made = Sheet(
        Column("hop", right=True, decor=True),
        Column("region"),
        Column("state"),
        Column("tries", right=True),
        Column("left for", folds=True),
        Column(f"since ({zone})" if zone else "since"),
        Column("until"),
    )
    for number, stay in enumerate(view.hops, 1):
        began, ended = stay.began_at, stay.ended_at
        same_day = began and ended and began.astimezone().date() == ended.astimezone().date()
        made.add(
            str(number),
            stay.region,
            show.state(stay.state.value if stay.state else ""),
            str(stay.attempts),
            stay.reason or "-",
            show.day_and_time(began),
            show.clock(ended) if ended and same_day else show.day_and_time(ended),
        )
    return made
