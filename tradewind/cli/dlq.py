"""tradewind dlq: tasks that were given up."""

import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tradewind.cli.orders import me
from tradewind.cli.outcome import DONE, FAILED, Failed
from tradewind.cli.session import Duration, examples, json_option, router_option, with_client
from tradewind.cli.unserved import hint_unknown_queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tradewind.cli.sheet import Sheet
    from tradewind.client import Client, DeadFilter, DeadPage, TaskView

    # One call of redrive or purge: how many, and regions that did not answer.
    Work = Callable[[Client, bool], Awaitable[tuple[int, tuple[str, ...]]]]

F = TypeVar("F", bound=Callable[..., Any])

KINDS = ("exhausted", "timeout", "crashed", "rejected", "damaged")

_FILTERS = (
    click.option("--region", default="", help="Only this region."),
    click.option("--queue", default="", help="Only this queue."),
    click.option("--name", default="", help="Only this handler."),
    click.option("--kind", type=click.Choice(KINDS), help="Only this cause."),
    click.option("--error", default="", metavar="TEXT", help="Only if the error contains TEXT."),
    click.option("--older-than", type=Duration(), help="Only if dead for this long, such as 24h."),
)


def filters(command: F) -> F:
    """Add the flags that choose dead tasks."""
    for option in reversed(_FILTERS):
        command = option(command)
    return command


def to_filter(flags: dict[str, Any], task_ids: tuple[str, ...] = ()) -> "DeadFilter":
    """Read the flags that `filters` added."""
    from tradewind.client import DeadFilter  # noqa: PLC0415 - gRPC is slow to import

    return DeadFilter(
        region=flags["region"],
        queue=flags["queue"],
        name=flags["name"],
        error_kind=flags["kind"] or "",
        error_contains=flags["error"],
        older_than=flags["older_than"] or timedelta(),
        task_ids=task_ids,
    )


@click.group()
def dlq() -> None:
    """Look at dead-lettered tasks, run them again, or delete them."""


@dlq.command(
    "list",
    short_help="List dead tasks and why they stay.",
    epilog=examples("tradewind dlq list --region us-east --kind exhausted"),
)
@filters
@click.option(
    "--limit", default=100, show_default=True, type=click.IntRange(1, 1_000), help="At most."
)
@click.option(
    "--page-token", default="", metavar="TOKEN", help="Go on where the list before ended."
)
@router_option
@json_option
def list_dead(limit: int, page_token: str, router: str, *, as_json: bool, **flags: Any) -> int:
    """List dead tasks of all regions, oldest death first, with the cause and why they stay."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    which = to_filter(flags)

    async def ask(client: "Client") -> "DeadPage":
        page = await client.admin.dead_tasks(which, page_size=limit, page_token=page_token)
        if not page.total:
            await hint_unknown_queue(client, which.queue)
        return page

    page = with_client(router, ask)
    if as_json:
        show.emit(
            {
                "tasks": [show.task_json(task) for task in page.tasks],
                "total": page.total,
                "next_page_token": page.next_page_token,
                "silent_regions": page.silent_regions,
            }
        )
        return DONE
    if page.tasks:
        show.console().print(dead_sheet(page.tasks))
    click.echo(f"{len(page.tasks)} of {page.total} dead {_tasks(page.total)}")
    if page.next_page_token:
        click.echo(f"The next ones: --page-token {page.next_page_token}", err=True)
    show.warn_silent(page.silent_regions)
    return DONE


@dlq.command(
    "show",
    short_help="Show a dead task in full.",
    epilog=examples("tradewind dlq show 06fk3vw2r8b1q0c4n7s9d5m2ea"),
)
@click.argument("task_id", metavar="ID")
@router_option
@json_option
def show_dead(task_id: str, router: str, *, as_json: bool) -> int:
    """Show a dead task: cause, traceback, payload, and every region it has been in."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.tasks import print_task  # noqa: PLC0415

    view = with_client(router, lambda client: client.get(task_id))
    if view.state.value != "DEAD_LETTER":
        raise Failed(f"task {view.task_id} is not dead: it is {view.state.value} in {view.region}.")
    if as_json:
        show.emit(show.task_json(view))
    else:
        print_task(view, payload=True)
    return DONE


@dlq.command(
    "redrive",
    short_help="Run dead tasks again.",
    epilog=examples(
        "tradewind dlq redrive --queue mail --error 'no such host'",
        "tradewind dlq redrive 06fk3vw2r8b1q0c4n7s9d5m2ea --yes",
    ),
)
@click.argument("task_ids", metavar="[ID]...", nargs=-1)
@filters
@click.option("--dry-run", is_flag=True, help="Say how many, change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@router_option
@json_option
def redrive(
    task_ids: tuple[str, ...], router: str, *, dry_run: bool, yes: bool, as_json: bool, **flags: Any
) -> int:
    """Make dead tasks ready again in their region, with fresh attempts; without a filter, all.

    A task whose fence no longer permits its region stays dead.
    """
    which = to_filter(flags, task_ids)
    return _work(
        lambda client, dry: client.admin.redrive(which, dry_run=dry, by=me()),
        ("redrive", "redriven"),
        router,
        queue=which.queue,
        dry_run=dry_run,
        yes=yes,
        as_json=as_json,
    )


@dlq.command(
    "purge",
    short_help="Delete dead tasks for good.",
    epilog=examples("tradewind dlq purge --older-than 7d --kind rejected"),
)
@click.argument("task_ids", metavar="[ID]...", nargs=-1)
@filters
@click.option("--dry-run", is_flag=True, help="Say how many, delete nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@router_option
@json_option
def purge(
    task_ids: tuple[str, ...], router: str, *, dry_run: bool, yes: bool, as_json: bool, **flags: Any
) -> int:
    """Delete dead tasks for good, payload and cause included; without a filter, all."""
    which = to_filter(flags, task_ids)
    return _work(
        lambda client, dry: client.admin.purge(which, dry_run=dry, by=me()),
        ("purge", "purged"),
        router,
        queue=which.queue,
        dry_run=dry_run,
        yes=yes,
        as_json=as_json,
    )


def _work(
    call: "Work",
    verbs: tuple[str, str],
    router: str,
    *,
    queue: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Say how many, ask, and work through them call by call."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    verb, done = verbs

    async def count_first(client: "Client") -> tuple[int, tuple[str, ...]]:
        found, silent = await call(client, True)  # noqa: FBT003 - dry
        if not found:
            await hint_unknown_queue(client, queue)
        return found, silent

    found, silent = with_client(router, count_first)
    if not as_json:
        click.echo(f"{found} dead {_tasks(found)} to {verb}", err=True)
    if dry_run or not found:
        count = found
    else:
        if not yes:
            _ask(verb, found)
        count, silent = with_client(router, lambda client: _until_done(client, call, found))
    if as_json:
        show.emit({"count": count, "dry_run": dry_run, "silent_regions": silent})
    elif found and not dry_run:
        click.echo(f"{count} {done}")
    if silent:
        said = (
            f"Warning: no answer from {', '.join(silent)}; dead tasks there are left as they were."
        )
        click.echo(said, err=True)
    return FAILED if silent and not dry_run else DONE


def _ask(verb: str, found: int) -> None:
    """Ask on a terminal; elsewhere nobody can answer."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"nothing was changed; add --yes to {verb} {found} {_tasks(found)}")
    click.confirm(f"{verb.capitalize()} {found} {_tasks(found)}?", abort=True, err=True)


async def _until_done(client: "Client", call: "Work", found: int) -> tuple[int, tuple[str, ...]]:
    """Repeat a call, which works for some seconds only, until there is nothing more to do.

    No more than were `found`: tasks that die again at once would keep it busy for ever.
    """
    total, silent = 0, set[str]()
    while total < found:
        count, quiet = await call(client, False)  # noqa: FBT003 - not dry
        total += count
        silent.update(quiet)
        if not count:
            break
    return total, tuple(sorted(silent))


def _tasks(count: int) -> str:
    return "task" if count == 1 else "tasks"


def dead_sheet(tasks: "Sequence[TaskView]") -> "Sheet":
    """Give a row for each task; under it what it died of, and why it stays."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.sheet import Column, Sheet  # noqa: PLC0415
    from tradewind.cli.tasks import failure_text  # noqa: PLC0415

    zone = show.zone(*(task.finished_at for task in tasks))
    made = Sheet(
        Column("task"),
        Column("region"),
        Column("queue", folds=True),
        Column("name", folds=True),
        Column(f"died ({zone})" if zone else "died"),
    )
    for task in tasks:
        stays = task.failover or ("" if task.settled else "about to be moved")
        made.add(
            task.task_id,
            task.region,
            task.queue,
            task.name,
            show.day_and_time(task.finished_at),
            below=[
                *([show.first_line(failure_text(task))] if task.error else []),
                *([f"stays: {stays}" if task.failover else stays] if stays else []),
            ],
        )
    return made
