"""Three regions, a thousand tasks, one region broken: where everything went, and why.

    python -m examples.demo

Starts what it needs on free ports with data of its own, and removes it all. Exits 0 only if every
task is accounted for.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.demo_load import ORIGINS, TOTAL, Order, orders
from examples.demo_report import Evidence, problems, show
from examples.shop import SECRET_VARIABLE
from examples.sink import Sink
from tradewind import Client, Receipt, TaskView, TradewindError
from tradewind.local.embedded import EmbeddedFleet, EmbeddedOptions
from tradewind.regions import load

HERE = Path(__file__).parent
BROKEN = "us-east"

SUBMITS_PER_S = 120  # so that it can be watched; the queues are not the subject here
TICK_S = 0.05
ENDS_WITHIN_S = 60.0  # after the last submit
_WATCHED = 64  # tasks waited for at once


class DemoFailed(Exception):
    """Something is not accounted for; the message says what."""


async def demo(out: Console, data_dir: Path) -> Evidence:
    """Run the whole story. Raises DemoFailed, or TradewindError if something cannot start."""
    secret = secrets.token_hex(16)
    os.environ[SECRET_VARIABLE] = secret  # the workers inherit it
    started = time.monotonic()
    sink = Sink(secret, on_taken=lambda _: None)
    sink.start()
    try:
        async with running_fleet(out, data_dir) as routers:
            plan = orders(sink.url)
            receipts = await submit_all(plan, routers, sink, out)
            first_ids = {receipts[each.index].task_id for each in plan if each.repeats is None}
            ends = await all_ends(sorted(first_ids), routers["eu-west"], out)
            return Evidence(
                orders=plan,
                receipts=receipts,
                ends=ends,
                deliveries=sink.deliveries(),
                broken=BROKEN,
                refused=sink.refused[BROKEN],
                seconds=time.monotonic() - started,
            )
    finally:
        sink.close()


@contextlib.asynccontextmanager
async def running_fleet(out: Console, data_dir: Path) -> AsyncGenerator[Mapping[str, Client], None]:
    """Start the regions and connect a client to each one's router."""
    config = HERE / "regions.yaml"
    options = EmbeddedOptions(
        config=config,
        app=f"{HERE / 'shop.py'}:app",
        data_dir=data_dir,
        wan=True,
        ephemeral_ports=True,
    )
    fleet = EmbeddedFleet(load(config), options)
    out.print("Starting three regions: a redis-server, a router and a worker pool each ...")
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(fleet.stop)
        await fleet.start()
        await fleet.until_served()
        routers: dict[str, Client] = {}
        for region, endpoint in fleet.endpoints.items():
            client = Client(endpoint.grpc, origin_region=region)
            routers[region] = await stack.enter_async_context(client)
            out.print(f"  {region:<9} grpc={endpoint.grpc} http={endpoint.http}")
        yield routers


async def submit_all(
    plan: Sequence[Order], routers: Mapping[str, Client], sink: Sink, out: Console
) -> dict[int, Receipt]:
    """Submit from all origins at a steady pace; half-way, break one region's dependency."""
    waiting: dict[int, asyncio.Task[Receipt]] = {}

    async def submit(order: Order) -> Receipt:
        if order.repeats is not None:  # by then the first is long accepted
            await asyncio.wait([waiting[order.repeats]])
        request = order.request
        client = routers[order.origin]
        return await client.submit(request.name, request.args, **request.options)

    with bar(out) as progress:
        shown = progress.add_task(f"submitting from {', '.join(ORIGINS)}", total=TOTAL)
        clock = asyncio.get_running_loop().time
        start = clock()
        for order in plan:
            if order.index == len(plan) // 2:
                sink.break_for(BROKEN)
                out.print(f"Half-way: from now on {BROKEN} cannot reach the sink.")
            due = start + order.index / SUBMITS_PER_S
            if (ahead := due - clock()) > TICK_S:
                await asyncio.sleep(ahead)
            waiting[order.index] = asyncio.create_task(submit(order))
            waiting[order.index].add_done_callback(lambda _: progress.advance(shown))
        await asyncio.wait(waiting.values())
    failed = {index: error for index, task in waiting.items() if (error := task.exception())}
    if failed:
        index, error = next(iter(failed.items()))
        raise DemoFailed(f"{len(failed)} submits were refused, the first ({index}): {error}")
    return {index: task.result() for index, task in waiting.items()}


async def all_ends(task_ids: Sequence[str], client: Client, out: Console) -> dict[str, TaskView]:
    """Wait until every task is settled, and give each as it ended."""
    ends: dict[str, TaskView] = {}
    room = asyncio.Semaphore(_WATCHED)

    async def follow(task_id: str) -> None:
        async with room:
            async for view in client.watch(task_id):
                ends[task_id] = view

    with bar(out) as progress:
        shown = progress.add_task("waiting for every task's end", total=len(task_ids))

        async def one(task_id: str) -> None:
            await follow(task_id)
            progress.advance(shown)

        try:
            async with asyncio.timeout(ENDS_WITHIN_S), asyncio.TaskGroup() as group:
                for task_id in task_ids:
                    group.create_task(one(task_id))
        except ExceptionGroup as group:
            raise DemoFailed(f"a task cannot be read: {group.exceptions[0]}") from group
        except TimeoutError:
            late = [each for each in task_ids if each not in ends or not ends[each].settled]
            known = [f"{each} {ends[each].state}" for each in late[:3] if each in ends]
            raise DemoFailed(
                f"{len(late)} tasks had not ended after {ENDS_WITHIN_S:.0f} s: {known}"
            ) from None
    return ends


def bar(out: Console) -> Progress:
    """Give a progress bar; on a pipe it stays silent."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=out, transient=True, disable=not out.is_terminal)


async def _until_stopped(out: Console, data_dir: Path) -> Evidence:
    """Run the demo; SIGTERM ends it as Ctrl-C does."""
    this = asyncio.current_task()
    if this is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    return await demo(out, data_dir)


def main() -> int:
    """Run, print, audit. Gives the exit code."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    terminal = sys.stdout.isatty()
    out = Console(highlight=False, width=None if terminal else 120)
    data_dir = Path(tempfile.mkdtemp(prefix="tradewind-demo-"))
    try:
        seen = asyncio.run(_until_stopped(out, data_dir))
        wrong = problems(seen)
        show(seen, out)
    except (KeyboardInterrupt, asyncio.CancelledError):
        shutil.rmtree(data_dir, ignore_errors=True)
        print("Stopped.", file=sys.stderr)
        return 130
    except (DemoFailed, TradewindError) as error:
        wrong = [str(error)]
    except BaseException:
        print(f"The logs are in {data_dir / 'logs'}", file=sys.stderr)
        raise
    if wrong:
        for line in wrong[:20]:
            print(f"Error: {line}", file=sys.stderr)
        print(f"Not everything is accounted for; logs: {data_dir / 'logs'}", file=sys.stderr)
        return 1
    shutil.rmtree(data_dir, ignore_errors=True)
    out.print("[bold green]Every task is accounted for.[/]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
