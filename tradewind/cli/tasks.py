"""tradewind get, tradewind watch: one task, now or until its end."""

from typing import TYPE_CHECKING

import click

from tradewind.cli.outcome import DONE, FAILED
from tradewind.cli.session import examples, json_option, router_option, with_client

if TYPE_CHECKING:
    from rich.text import Text

    from tradewind.cli.sheet import Facts, Sheet
    from tradewind.client import Client, TaskView


@click.command(
    short_help="Show a task and where it has been.",
    epilog=examples("tradewind get 06fk3vw2r8b1q0c4n7s9d5m2ea"),
)
@click.argument("task_id", metavar="ID")
@router_option
@json_option
def get(task_id: str, router: str, *, as_json: bool) -> int:
    """Show a task: state, result or error, and every region it has been in."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    view = with_client(router, lambda client: client.get(task_id))
    if as_json:
        show.emit(show.task_json(view))
        return DONE
    out = show.console()
    out.print(facts(view))
    if len(view.hops) > 1:
        out.print()
        out.print(hops_sheet(view))
    return DONE


@click.command(
    short_help="Follow a task until its end.",
    epilog=examples("tradewind watch 06fk3vw2r8b1q0c4n7s9d5m2ea"),
)
@click.argument("task_id", metavar="ID")
@router_option
@json_option
def watch(task_id: str, router: str, *, as_json: bool) -> int:
    """Follow a task until nothing can change it any more. Exits 1 unless it completed."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    out = show.console()

    async def follow(client: "Client") -> int:
        code = FAILED
        async for view in client.watch(task_id):
            if as_json:
                show.emit(show.task_json(view), line=True)
            else:
                out.print(change(view), soft_wrap=True)
            code = DONE if view.state.value == "COMPLETED" else FAILED
        return code

    return with_client(router, follow)


def change(view: "TaskView") -> "Text":
    """Give what is new about a task that is watched, as one line."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    state = view.state.value
    said = show.state(f"{state:<11}").append(f"  {view.region}")
    if state == "COMPLETED":
        return said.append(f"  {attempt_text(view)}: {show.result_text(view.result)}")
    if state == "PROCESSING":
        said.append(f"  {attempt_text(view)}")
    elif view.error is not None and view.attempts:
        said.append(f"  {show.first_line(failure_text(view))}")
    if view.next_attempt_at is not None:
        again = "runs again" if view.attempts else "runs"
        said.append(f"; {again} at {show.clock(view.next_attempt_at)}")
    return said


def attempt_text(view: "TaskView") -> str:
    """Give how far the attempts in the present region have come."""
    most = f" of {view.max_attempts}" if view.max_attempts else ""
    return f"attempt {view.attempts}{most}"


def failure_text(view: "TaskView") -> str:
    """Say how the last attempt failed; empty if none did.

    The kind is that of a death, or of an attempt that was cut short; a failure that will be
    retried has none.
    """
    if view.error is None:
        return ""
    kind, tried = view.error.kind, attempt_text(view)
    how = f"{kind} at {tried}" if kind else f"{tried} failed"
    return f"{how}: {view.error.message}"


def facts(view: "TaskView") -> "Facts":
    """Give everything about a task but where it has been."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.sheet import Facts  # noqa: PLC0415

    state = view.state.value
    most = f" of {view.max_attempts}" if view.max_attempts else ""
    made = Facts()
    made.add("task", view.task_id)
    made.add("name", f"{view.name}  (queue {view.queue}, {view.priority.lower()})")
    made.add("state", show.state(state))
    made.add("region", f"{view.region}, partition {view.partition}")
    made.add("fence", ", ".join(view.fence))
    made.add("pinned to", view.pin_region)
    crashes = f", crashes {view.crashes}" if view.crashes else ""
    made.add("attempts", f"{view.attempts}{most}{crashes}")
    made.add("tenant", view.tenant)
    made.add("labels", ", ".join(f"{key}={value}" for key, value in sorted(view.labels.items())))
    made.add("affinity key", view.affinity_key)
    made.add("idempotency key", view.idempotency_key)
    made.add("created", show.moment(view.created_at))
    made.add("started", show.moment(view.started_at))
    made.add("finished", show.moment(view.finished_at))
    made.add("next attempt", show.moment(view.next_attempt_at))
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
    """Give every stay of a task, oldest first: when it arrived there, and when that ended."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.sheet import Column, Sheet  # noqa: PLC0415

    zone = show.zone(view.created_at)
    made = Sheet(
        Column("hop", right=True, decor=True),
        Column("region"),
        Column("state"),
        Column("tries", right=True),
        Column("left for", folds=True),
        Column(f"arrived ({zone})" if zone else "arrived"),
        Column("ended"),
    )
    # A router gives the end of each stay; of the present one, which is the last, its beginning.
    *before, present = view.hops
    ends = [stay.at for stay in before] + [view.finished_at]
    begins = [view.created_at, *ends[:-1]]
    for number, (stay, began, ended) in enumerate(
        zip((*before, present), begins, ends, strict=True), 1
    ):
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
