"""What the demo shows, and its audit: every task accounted for, or the reason why not."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table

from examples.demo_load import FENCED, Kind, Order
from examples.sink import Delivery
from tradewind import Receipt, State, TaskView


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything the demo knows at its end."""

    orders: Sequence[Order]
    receipts: Mapping[int, Receipt]  # by order index
    ends: Mapping[str, TaskView]  # by task id
    deliveries: Sequence[Delivery]
    broken: str
    refused: int  # requests from the broken region that failed
    seconds: float

    def first_id(self, order: Order) -> str:
        """Id of the task that this order is, or repeats."""
        return self.receipts[order.index if order.repeats is None else order.repeats].task_id


def problems(seen: Evidence) -> list[str]:
    """Say what does not add up; nothing if every task is accounted for."""
    if missing := [order.index for order in seen.orders if order.index not in seen.receipts]:
        return [f"{len(missing)} submits have no receipt: {missing[:5]}"]
    return [*_submits(seen), *_ends(seen), *_ledger(seen), *_fence(seen)]


def show(seen: Evidence, out: Console) -> None:
    """Print what happened."""
    out.print()
    out.print(_routes(seen))
    story = Table.grid(padding=(0, 2))
    story.add_column(style="bold", no_wrap=True)
    story.add_column()
    for label, told in (
        ("Fenced", _fenced(seen)),
        ("Duplicates", _duplicates(seen)),
        ("Broken", _broken(seen)),
        ("Sum", _sum(seen)),
    ):
        story.add_row("", "")
        story.add_row(label, Group(*told))
    out.print(story)


def _submits(seen: Evidence) -> Iterator[str]:
    for order in seen.orders:
        receipt = seen.receipts[order.index]
        if order.repeats is not None and receipt.task_id != seen.first_id(order):
            yield f"repeat {order.index} made a second task {receipt.task_id}"
        if (order.repeats is not None) != receipt.duplicate:
            yield f"submit {order.index} says duplicate={receipt.duplicate}"
    ids = [seen.receipts[each.index].task_id for each in seen.orders if each.repeats is None]
    if len(set(ids)) != len(ids):
        yield "two different submits were given one id"


def _ends(seen: Evidence) -> Iterator[str]:
    for order in seen.orders:
        view = seen.ends.get(seen.first_id(order))
        if view is None or not view.settled:
            yield f"task {seen.first_id(order)} has not ended: {view.state if view else 'unread'}"
        elif order.kind is Kind.KEPT and view.state is not State.DEAD_LETTER:
            yield f"task {view.task_id} should be dead in the EU, not {view.state}"
        elif order.kind is not Kind.KEPT and view.state is not State.COMPLETED:
            why = view.error.message if view.error else ""
            yield f"task {view.task_id} ended as {view.state} in {view.region}: {why}"


def _ledger(seen: Evidence) -> Iterator[str]:
    taken = Counter(delivery.message_id for delivery in seen.deliveries)
    twice = [message_id for message_id, count in taken.items() if count > 1]
    # A worker that dies between its request and its report leaves a task that must run again; the
    # receiver knows it by its id. Anything else that is delivered twice is a fault.
    if unexplained := [each for each in twice if each in seen.ends and not _ran_again(seen, each)]:
        yield f"{len(unexplained)} tasks were delivered twice: {unexplained[:5]}"
    completed = {view.task_id for view in seen.ends.values() if view.state is State.COMPLETED}
    if lost := completed - taken.keys():
        yield f"{len(lost)} completed tasks were never delivered: {sorted(lost)[:5]}"
    if strangers := taken.keys() - completed:
        yield f"{len(strangers)} deliveries belong to no completed task: {sorted(strangers)[:5]}"


def _ran_again(seen: Evidence, task_id: str) -> bool:
    view = seen.ends[task_id]
    return view.attempts > 1 or view.crashes > 0


def _fence(seen: Evidence) -> Iterator[str]:
    for order in seen.orders:
        if order.kind in FENCED:
            view = seen.ends.get(seen.first_id(order))
            regions = {stay.region for stay in view.hops} if view else set[str]()
            if regions - {"eu-west"}:
                yield f"task {order.index} with personal data was in {sorted(regions)}"


def _routes(seen: Evidence) -> Table:
    cells: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for order in seen.orders:
        receipt = seen.receipts[order.index]
        cells[order.origin, receipt.region][receipt.rule] += 1
    regions = sorted({region for _, region in cells})
    made = Table(
        box=box.SIMPLE_HEAD,
        title="Where tasks went when they were submitted, and what decided it",
        title_justify="left",
        caption="home: the nearest region; affinity: where equal keys go; spill: the nearest was "
        "busy; detour: it was full or out; ledger: where repeats of the key are recognised",
        caption_justify="left",
    )
    made.add_column("from \\ to")
    for region in regions:
        made.add_column(region)
    for origin in sorted({origin for origin, _ in cells}):
        row: list[str] = []
        for region in regions:
            reasons = cells[origin, region]
            lines = [f"[bold]{reasons.total()}[/]"]
            lines += [f"{count:>4} {reason}" for reason, count in reasons.most_common()]
            row.append("\n".join(lines))
        made.add_row(f"[bold]{origin}[/]", *row, end_section=True)
    return made


def _fenced(seen: Evidence) -> Iterator[RenderableType]:
    fenced = [order for order in seen.orders if order.kind in FENCED]
    abroad = sum(order.origin != "eu-west" for order in fenced)
    yield (
        f"{len(fenced)} tasks with personal data, {abroad} of them submitted outside the EU: "
        "all stayed in eu-west."
    )
    for order in fenced:
        view = seen.ends[seen.first_id(order)]
        if order.kind is Kind.KEPT and view.error is not None:
            yield f"One of them is dead: {view.task_id}, after {view.attempts} attempts"
            yield f"  ({view.error.message})."
            yield f"It was not moved, since its fence is the EU: {view.failover}."


def _duplicates(seen: Evidence) -> Iterator[RenderableType]:
    repeats = [order for order in seen.orders if order.repeats is not None]
    abroad = [each for each in repeats if each.origin != seen.orders[each.repeats or 0].origin]
    sample = (abroad or repeats)[0]
    first = seen.orders[sample.repeats or 0]
    key = first.request.options.get("idempotency_key")
    yield f"{len(repeats)} submits used a key again and got the first id; such as {key}:"
    for words, order in (("first", first), ("again", sample)):
        receipt = seen.receipts[order.index]
        mark = "duplicate" if receipt.duplicate else "new"
        yield f"  {words} from {order.origin:<9} {receipt.task_id}  {mark}"


def _broken(seen: Evidence) -> Iterator[RenderableType]:
    moved = [
        view
        for view in seen.ends.values()
        if len(view.hops) > 1 and view.hops[0].region == seen.broken
    ]
    targets = Counter(view.region for view in moved)
    where = ", ".join(f"{count} in {region}" for region, count in targets.most_common())
    yield (
        f"{seen.broken} lost its way to the sink ({seen.refused} requests failed; its Redis and "
        "workers lived)."
    )
    yield f"{len(moved)} tasks died there and were finished elsewhere: {where or 'none'}."
    if moved:
        yield f"One of them, {moved[0].task_id}:"
        yield _hops(moved[0])


def _hops(view: TaskView) -> Table:
    made = Table("hop", "region", "ended as", "attempts", "why it left", box=box.SIMPLE_HEAD)
    for number, stay in enumerate(view.hops, 1):
        ended = stay.state.value if stay.state else ""
        made.add_row(str(number), stay.region, ended, str(stay.attempts), stay.reason)
    return made


def _sum(seen: Evidence) -> Iterator[RenderableType]:
    submitted = len(seen.orders)
    duplicates = sum(receipt.duplicate for receipt in seen.receipts.values())
    states = Counter(view.state for view in seen.ends.values())
    completed, dead = states[State.COMPLETED], states[State.DEAD_LETTER]
    taken = Counter(delivery.message_id for delivery in seen.deliveries)
    twice = sum(count > 1 for count in taken.values())
    accepted = submitted - duplicates
    yield f"{submitted} submitted = {accepted} accepted + {duplicates} duplicates"
    yield f"{len(seen.ends)} accepted = {completed} completed + {dead} dead (kept by its fence)"
    yield (
        f"{len(taken)} in the sink's ledger, {twice} twice, {completed - len(taken)} lost, "
        f"in {seen.seconds:.0f} s"
    )
    if twice:
        yield (
            f"({twice} came again since their worker died before it could report; the receiver "
            "knows them by their id)"
        )
