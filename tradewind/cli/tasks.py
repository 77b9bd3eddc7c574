"""tradewind get, tradewind watch: one task, now or until its end."""

from typing import TYPE_CHECKING

import click

from tradewind.cli.outcome import DONE, FAILED
from tradewind.cli.session import examples, json_option, router_option, with_client

if TYPE_CHECKING:
    from rich.table import Table

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
    for part in facts(view):
        out.print(part)
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
                out.print(*_change(view), markup=False)
            code = DONE if view.state.value == "COMPLETED" else FAILED
        return code

    return with_client(router, follow)


def _change(view: "TaskView") -> list[object]:
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    words: list[object] = [show.state(f"{view.state.value:<11}"), view.region]
    if view.attempts:
        words.append(f"attempt {view.attempts}")
    if view.state.value == "COMPLETED":
        words.append(show.result_text(view.result))
    elif view.error is not None:
        words.append(f"{view.error.kind}: {show.first_line(view.error.message)}")
    if view.next_attempt_at is not None:
        words.append(f"next at {show.clock(view.next_attempt_at)}")
    return words


def facts(view: "TaskView") -> "list[Table]":
    """Give a task as tables: what it is, and where it has been."""
    from rich.table import Table  # noqa: PLC0415 - rich is slow to import
    from rich.text import Text  # noqa: PLC0415

    from tradewind.cli import show  # noqa: PLC0415

    grid = Table.grid(padding=(0, 2))

    def row(label: str, value: object) -> None:
        if value:
            grid.add_row(Text(label, "bold"), value if isinstance(value, Text) else str(value))

    row("task", view.task_id)
    row("name", f"{view.name}  (queue {view.queue}, {view.priority.lower()})")
    row("state", show.state(view.state.value))
    row("region", f"{view.region}, partition {view.partition}")
    row("fence", ", ".join(view.fence))
    row("pinned to", view.pin_region)
    row("attempts", f"{view.attempts}" + (f", crashes {view.crashes}" if view.crashes else ""))
    row("labels", ", ".join(f"{key}={value}" for key, value in sorted(view.labels.items())))
    row("affinity key", view.affinity_key)
    row("idempotency key", view.idempotency_key)
    row("created", show.clock(view.created_at))
    row("started", view.started_at and show.clock(view.started_at))
    row("finished", view.finished_at and show.clock(view.finished_at))
    row("next attempt", view.next_attempt_at and show.clock(view.next_attempt_at))
    if view.state.value == "COMPLETED":
        row("result", "dropped: memory" if view.result_omitted else show.result_text(view.result))
    if view.error is not None:
        row("error", f"{view.error.kind}: {view.error.message}")
        row("traceback", view.error.traceback)
    row("not moved on", view.failover)
    row("fingerprint", view.fingerprint)
    return [grid, hops_table(view)] if len(view.hops) > 1 else [grid]


def hops_table(view: "TaskView") -> "Table":
    """Give every stay of a task, oldest first."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    made = show.table("hop", "region", "ended as", "attempts", "why it left", "at", right=["hop"])
    for number, stay in enumerate(view.hops, 1):
        made.add_row(
            str(number),
            stay.region,
            show.state(stay.state.value) if stay.state else "",
            str(stay.attempts),
            stay.reason,
            show.clock(stay.at),
        )
    return made
