"""tradewind moves: tasks on their way between regions, and how to end a move that is stuck."""

from typing import TYPE_CHECKING

import click

from tradewind.cli.orders import me
from tradewind.cli.outcome import DONE
from tradewind.cli.session import examples, json_option, router_option, with_client
from tradewind.cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tradewind.cli.sheet import Sheet
    from tradewind.client.moves import MoveStatus


@click.group(short_help="Show or end moves between regions.")
def moves() -> None:
    """Show tasks on their way between regions, or end a move whose target is gone."""


@moves.command(
    "list",
    short_help="Show what is on its way.",
    epilog=examples("tradewind moves list --region us-east"),
)
@click.option("--region", default="", help="Only what leaves this region.")
@router_option
@json_option
def list_moves(region: str, router: str, *, as_json: bool) -> int:
    """Show moves under way, oldest first. One that stays here waits for its target to answer."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    found, silent = with_client(router, lambda client: client.admin.moves(region))
    if as_json:
        show.emit({"moves": found, "silent_regions": silent})
        return DONE
    if found:
        show.console().print(moves_sheet(found))
    elif not silent:
        click.echo("nothing is on its way")
    show.warn_silent(silent)
    return DONE


@moves.command(
    short_help="End a move: the task waits again where it was.",
    epilog=examples(
        "tradewind moves retarget 01j9zq4m1cgy5h03",
        "tradewind moves retarget 01j9zq4m1cgy5h03 --force",
    ),
)
@click.argument("task_id", metavar="ID")
@click.option(
    "--force",
    is_flag=True,
    help="Also if the target does not answer: if it has the task after all, it runs twice.",
)
@router_option
@json_option
def retarget(task_id: str, router: str, *, force: bool, as_json: bool) -> int:
    """End a task's move. It is again in the region that it was to leave, and may move elsewhere.

    Without --force only if its target promises not to take it. With --force the target is not
    waited for: use it when that region is gone for good.
    """
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    done = with_client(router, lambda client: client.admin.retarget(task_id, force=force, by=me()))
    if as_json:
        show.emit(done)
        return DONE
    where = f"{done.task.state} in {done.task.region}"
    said = f"the move was ended: it is {where}" if done.ended else f"it is on no move: {where}"
    click.echo(one_line(f"{task_id}: {said}"))
    if done.may_run_twice:
        twice = "its target did not answer: should it have the task after all, it runs twice"
        click.echo(one_line(f"{task_id}: {twice}"), err=True)
    return DONE


def moves_sheet(found: "Sequence[MoveStatus]") -> "Sheet":
    """Give a row for each move."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import
    from tradewind.cli.sheet import Column, Sheet  # noqa: PLC0415

    made = Sheet(
        Column("task"),
        Column("from"),
        Column("to"),
        Column("why"),
        Column("was"),
        Column(f"since ({show.zone(*(each.began_at for each in found))})"),
    )
    for each in found:
        made.add(
            each.task_id,
            each.source,
            each.target,
            each.reason,
            show.state(each.state),
            show.day_and_time(each.began_at),
        )
    return made
