"""tradewind evacuate: what waits in a region moves out, and how far that is."""

import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Final

import click

from tradewind.cli.orders import me, reason_option
from tradewind.cli.outcome import DONE, FAILED
from tradewind.cli.session import examples, json_option, router_option, with_client
from tradewind.cli.text import one_line

if TYPE_CHECKING:
    from tradewind.client import Client
    from tradewind.client.moves import EvacuationStatus

_INTERRUPTED: Final = 130  # as tradewind.cli.main has it
_WINDOW_S: Final = 15.0  # of the rate that is shown: couriers look every second
_TOLD_EVERY_S: Final = 10.0  # where there is no terminal for a bar
_LOOK_MIN: Final = 3  # couriers look again after 160 s at most


@click.command(
    short_help="Move what waits out of a region.",
    epilog=examples(
        "tradewind drain us-east --reason 'going out of service' && tradewind evacuate us-east",
        "tradewind evacuate us-east --dry-run",
        "tradewind evacuate us-east --rate 50",
    ),
)
@click.argument("region")
@click.option(
    "--rate",
    default=0.0,
    type=click.FloatRange(min=0),
    help="Most tasks a second; 0: as fast as the other regions' limits allow.",
)
@click.option("--dry-run", is_flag=True, help="Only say how many would move.")
@reason_option
@router_option
@json_option
def evacuate(
    region: str, rate: float, reason: str, router: str, *, dry_run: bool, as_json: bool
) -> int:
    """Move what waits, is delayed or dead, or waits for a retry out of a region, and watch.

    First `drain` or `cordon` the region, so that it takes no new work. What runs finishes where it
    is; what may not leave is named, with the reason. The order stands if this command is stopped,
    and is watched again by repeating it; `activate` ends it. Exits 1 while something is left that
    may leave later.
    """
    watch = _Watch(region, quiet=as_json or dry_run)

    async def follow(client: "Client") -> None:
        statuses = client.admin.evacuate(
            region, rate_per_s=rate, dry_run=dry_run, reason=reason, by=me()
        )
        await watch.follow(statuses)

    try:
        with_client(router, follow, may_wait=True)
    except KeyboardInterrupt:
        said = f"The order stands: couriers go on. `tradewind evacuate {region}` watches it again, "
        click.echo(one_line(f"{said}`tradewind activate {region}` ends it."), err=True)
        return _INTERRUPTED
    return _tell(region, watch.last, dry_run=dry_run, as_json=as_json)


def _tell(region: str, last: "EvacuationStatus | None", *, dry_run: bool, as_json: bool) -> int:
    from tradewind.cli import show  # noqa: PLC0415 - rich is slow to import

    is_done = last is not None and last.done
    later, minutes = leaves_later(last.kept) if last is not None else ({}, 0)
    code = DONE if is_done and (dry_run or not later) else FAILED
    if as_json:
        said = {"region": region, "dry_run": dry_run, "evacuation": last, "may_leave_later": later}
        show.emit(said)
        return code
    if last is None or not is_done:
        click.echo(one_line(f"the evacuation of {region} was ended: it is ordered no more"))
        return FAILED
    did = "would move" if dry_run else "moved"
    click.echo(one_line(f"{region}: {last.moved:,} {'task' if last.moved == 1 else 'tasks'} {did}"))
    for reason, count in sorted(last.kept.items(), key=lambda each: -each[1]):
        stay = "stay for now" if reason in later else "stay"
        click.echo(one_line(f"  {count:,} {stay}: {reason}"))
    if dry_run and last.remaining:
        click.echo(f"  {last.remaining:,} more: not looked at; ask again once some have moved")
    if code != DONE:
        total = sum(later.values())
        said = f"{total:,} may leave later: the order stands; run it again in {minutes} min"
        click.echo(one_line(said), err=True)
    return code


def leaves_later(kept: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Give what stays for a reason that may pass, and in how many minutes to look again."""
    from tradewind.limits import MINUTE_MS, MOVE_AGAIN_MS  # noqa: PLC0415 - as below
    from tradewind.policy.relocate import MOVED_LATELY  # noqa: PLC0415
    from tradewind.relocation import may_pass  # noqa: PLC0415 - slow to import

    later = {reason: count for reason, count in kept.items() if may_pass(reason)}
    others = later.keys() - {MOVED_LATELY}
    return later, _LOOK_MIN if others else MOVE_AGAIN_MS // MINUTE_MS


class _Watch:
    """Shows what the router tells, as a bar on a terminal, else as a line now and then."""

    def __init__(self, region: str, *, quiet: bool) -> None:
        """`quiet`: show nothing on the way."""
        self._region, self._quiet = region, quiet
        self._seen: deque[tuple[float, int]] = deque()  # when, and how many had moved
        self.last: EvacuationStatus | None = None

    async def follow(self, statuses: "AsyncGenerator[EvacuationStatus, None]") -> None:
        """Show all of it, up to the end."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

        from tradewind.cli import show  # noqa: PLC0415 - so is rich

        err = show.console(err=True)
        told_s = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        is_hidden = self._quiet or not err.is_terminal
        with Progress(*columns, console=err, transient=True, disable=is_hidden) as bar:
            task = bar.add_task(self._region, total=None)
            async for status in statuses:
                self.last = status
                total = status.moved + status.remaining
                said = f"{self._region} {self._pace(status)}"
                bar.update(task, description=said, completed=status.moved, total=total or None)
                now_s = time.monotonic()
                if not self._quiet and not err.is_terminal and now_s - told_s >= _TOLD_EVERY_S:
                    told_s = now_s
                    click.echo(one_line(f"{said}: {status.moved:,} of {total:,}"), err=True)

    def _pace(self, status: "EvacuationStatus") -> str:
        """Give rate and time left, once they are known."""
        now_s = time.monotonic()
        self._seen.append((now_s, status.moved))
        while now_s - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()
        began_s, before = self._seen[0]
        passed_s, moved = now_s - began_s, status.moved - before
        if passed_s < 1 or moved <= 0:
            return "(waiting)" if passed_s > _TOLD_EVERY_S else ""
        rate = moved / passed_s
        return f"{rate:,.0f}/s, {status.remaining / rate:,.0f} s left"
