"""What a replay came to, region by region."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.table import Table

from tradewind import Receipt, State, TaskView, TradewindError

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """One line of the ledger: a handler that ran to its end."""

    arrival: int
    task_id: str
    region: str
    attempt: int
    started_ns: int  # monotonic, the clock of the submits


@dataclass(frozen=True, slots=True)
class RegionRow:
    """What one region did. Delays are from the submit call to the handler's start, in ms."""

    region: str
    ran: int
    share: float  # of all finished tasks
    home_share: float  # of the tasks submitted here: ran here
    start_p50_ms: float
    start_p95_ms: float
    start_p99_ms: float
    retries: int
    moved_in: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The whole replay."""

    submitted: int
    accepted: int
    refused: int
    finished: int
    completed: int  # as the routers say
    twice: int  # as the ledger says
    retries: int
    moves: int
    start_p50_ms: float
    start_p95_ms: float
    start_p99_ms: float
    late_s: float  # how far the replay itself fell behind the trace, at worst
    rules: Mapping[str, int]  # what decided the regions
    regions: Sequence[RegionRow] = field(default_factory=list[RegionRow])
    first_refusal: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether everything accepted finished, and nothing twice."""
        return self.accepted == self.finished == self.completed and not self.twice


def percentile(ordered: Sequence[float], share: float) -> float:
    """Give the value below which `share` of the sorted values lie (nearest rank)."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def summarise(
    *,
    regions: Sequence[str],
    origins: Mapping[int, str],
    submitted_ns: Mapping[int, int],
    receipts: Mapping[int, Receipt],
    refused: Mapping[int, TradewindError],
    tasks: Mapping[int, TaskView],
    runs: Sequence[Run],
    late_s: float,
) -> Summary:
    """Count a run."""
    first = {run.arrival: run for run in reversed(runs)}
    delays = {
        index: (run.started_ns - submitted_ns[index]) / _NS_PER_MS for index, run in first.items()
    }
    rows: list[RegionRow] = []
    for region in regions:
        mine = [index for index, run in first.items() if run.region == region]
        here = [index for index in first if origins[index] == region]
        at_home = sum(first[index].region == region for index in here)
        ordered = sorted(delays[index] for index in mine)
        views = [tasks[index] for index in mine if index in tasks]
        rows.append(
            RegionRow(
                region=region,
                ran=len(mine),
                share=len(mine) / max(1, len(first)),
                home_share=at_home / max(1, len(here)),
                start_p50_ms=percentile(ordered, 0.5),
                start_p95_ms=percentile(ordered, 0.95),
                start_p99_ms=percentile(ordered, 0.99),
                retries=sum(max(0, view.attempts - 1) for view in views),
                moved_in=sum(len(view.hops) > 1 for view in views),
            )
        )
    ordered = sorted(delays.values())
    times = Counter(run.arrival for run in runs)
    return Summary(
        submitted=len(origins),
        accepted=len(receipts),
        refused=len(refused),
        finished=len(first),
        completed=sum(view.state is State.COMPLETED for view in tasks.values()),
        twice=sum(count > 1 for count in times.values()),
        retries=sum(row.retries for row in rows),
        moves=sum(row.moved_in for row in rows),
        start_p50_ms=percentile(ordered, 0.5),
        start_p95_ms=percentile(ordered, 0.95),
        start_p99_ms=percentile(ordered, 0.99),
        late_s=late_s,
        rules=dict(Counter(receipt.rule for receipt in receipts.values())),
        regions=rows,
        first_refusal=next((str(error) for error in refused.values()), ""),
    )


def show(summary: Summary, out: Console) -> None:
    """Print the table and the sum."""
    made = Table(box=box.SIMPLE_HEAD)
    made.add_column("region")
    for column in ("ran", "share", "home share", "start p50", "p95", "p99", "retries", "moved in"):
        made.add_column(column, justify="right")
    for row in summary.regions:
        made.add_row(
            row.region,
            f"{row.ran:,}",
            f"{row.share:.1%}",
            f"{row.home_share:.1%}",
            *_delays(row.start_p50_ms, row.start_p95_ms, row.start_p99_ms),
            str(row.retries),
            str(row.moved_in),
        )
    made.add_section()
    made.add_row(
        "all",
        f"{summary.finished:,}",
        "",
        "",
        *_delays(summary.start_p50_ms, summary.start_p95_ms, summary.start_p99_ms),
        str(summary.retries),
        str(summary.moves),
    )
    out.print(made)
    decided = ", ".join(f"{count:,} {rule}" for rule, count in summary.rules.items())
    out.print(f"decided by: {decided}")
    if summary.refused:
        out.print(f"{summary.refused:,} refused, such as: {summary.first_refusal}")
    out.print(
        f"{summary.submitted:,} submitted, {summary.accepted:,} accepted = {summary.finished:,} "
        f"finished by the ledger = {summary.completed:,} COMPLETED by the routers; "
        f"{summary.twice} twice; submits at most {summary.late_s:.2f} s behind the trace"
    )
    verdict = "[green]sound[/]" if summary.is_sound else "[bold red]NOT SOUND[/]"
    out.print(f"accepted = finished, none twice: {verdict}")


def _delays(*values_ms: float) -> list[str]:
    return [f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms" for value in values_ms]
