"""tradewind regions, queues, workers: the fleet as tables."""

from typing import TYPE_CHECKING, TypeVar

import click

from tradewind.cli.outcome import DONE
from tradewind.cli.session import examples, json_option, router_option, with_client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tradewind.client import Admin

T = TypeVar("T")


def _ask(router: str, question: "Callable[[Admin], Awaitable[T]]") -> T:
    return with_client(router, lambda client: question(client.admin))


@click.command(
    epilog=examples(
        "tradewind regions --router 127.0.0.1:7070",
        '"',
        "om tradewind.cli import show  # noqa: PLC0415 - rich is slow to import",
        "",
        "und, silent = _ask(router, lambda admin: admin.regions())",
        " as_json:",
        '  show.emit({"regions": found, "silent_regions": silent})',
        "  return DONE",
        "de = show.table(",
        '  *("region", "state", "health", "rtt", "expected wait", "pending", "slots", "workers"),',
        '  right=["rtt", "expected wait", "pending", "slots", "workers"],',
        "",
        "r each in found:",
        "  made.add_row(",
        "      each.name,",
        "      show.state(each.state),",
        "      show.state(each.health),",
        "      show.milliseconds(each.rtt_ms),",
        "      show.seconds(each.expected_wait_s),",
        '      f"{each.pending:,}",',
        '      f"{each.live_slots:,}",',
        "      str(each.workers),",
        "  )",
        "ow.console().print(made)",
        "ow.warn_silent(silent)",
        "turn DONE",
        "",
        "",
        ".command()",
        '.option("--region", default="", help="Only this region.")',
        '.option("--queue", default="", help="Only this queue.")',
        "r_option",
        "option",
        "eues(region: str, queue: str, router: str, as_json: bool) -> int:  # noqa: FBT001 - a flag",
        '"Show every queue in every region: what waits, runs, retries and is dead.',
        "",
        "",
        "ample:",
        "tradewind queues --queue default",
        '"',
        "om tradewind.cli import show  # noqa: PLC0415 - rich is slow to import",
        "",
        "und, silent = _ask(router, lambda admin: admin.queues(region, queue))",
        " as_json:",
        '  show.emit({"queues": found, "silent_regions": silent})',
        "  return DONE",
        'mbers = ("high", "normal", "low", "delayed", "running", "retrying", "moving", "dead")',
        'de = show.table("region", "queue", *numbers, "oldest", right=[*numbers, "oldest"])',
        "r each in found:",
        "  counts = (",
        "      *(each.pending_high, each.pending_normal, each.pending_low, each.scheduled),",
        "      *(each.processing, each.failed, each.moving, each.dead),",
        "  )",
        '  name = f"{each.queue} (paused)" if each.paused else each.queue',
        "  oldest = show.seconds(each.oldest_age_s)",
        '  made.add_row(each.region, name, *(f"{count:,}" for count in counts), oldest)',
        "ow.console().print(made)",
        "ow.warn_silent(silent)",
        "turn DONE",
        "",
        "",
        ".command()",
        '.option("--region", default="", help="Only this region.")',
        "r_option",
        "option",
        "rkers(region: str, router: str, as_json: bool) -> int:  # noqa: FBT001 - a flag",
        '"Show the live workers: what they run and how busy they are.',
        "",
        "",
        "ample:",
        "tradewind workers --region eu-west",
    )
)
@router_option
@json_option
def regions(router: str, as_json: bool) -> int:  # noqa: FBT001 - a flag
    """Show every region: state, health, distance, expected wait, workers."""
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    found, silent = _ask(router, lambda admin: admin.workers(region))
    if as_json:
        show.emit({"workers": found, "silent_regions": silent})
        return DONE
    made = show.table("worker", "region", "queues", "handlers", "busy", "since", right=["busy"])
    for each in found:
        made.add_row(
            each.worker_id,
            each.region,
            ", ".join(each.queues),
            ", ".join(each.handlers),
            f"{each.busy}/{each.slots}",
            show.clock(each.started_at),
        )
    show.console().print(made)
    show.warn_silent(silent)
    return DONE
