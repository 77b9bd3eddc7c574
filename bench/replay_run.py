"""Replay a real arrival trace through gRPC into embedded regions with real distances between them.

    bench/replay.py ../shared/data/arrivals_azure_llm_2023_conv.csv --speed 60 \
        --rtt ../shared/data/azure_rtt_p95_2026-07-30.csv

The trace has columns TIMESTAMP, ContextTokens, GeneratedTokens; a task takes 50 ms and 20 ms for
each generated token, divided by the speed. Arrivals come from all regions in turn of a seeded draw,
each through its own region's router. Exits 1 unless every accepted task finished, and none twice.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.replay_app import LEDGER_VARIABLE
from bench.replay_input import (
    DEFAULT_REGIONS,
    Arrival,
    BadInput,
    read_rtt,
    read_trace,
    slug,
    write_config,
)
from bench.replay_report import Run, Summary, show, summarise
from tradewind import Client, Receipt, TaskView, TradewindError
from tradewind.local.embedded import EmbeddedFleet, EmbeddedOptions
from tradewind.regions import load

_IDLE_S = 60.0  # without one more finished task: something is lost
_READS = 64  # GetTask under way at once


@contextlib.asynccontextmanager
async def running_fleet(
    config: Path, data_dir: Path, concurrency: int
) -> AsyncGenerator[Mapping[str, Client], None]:
    """Start the regions with delays between them, and connect to each one's router."""
    options = EmbeddedOptions(
        config=config,
        app=f"{Path(__file__).with_name('replay_app.py')}:app",
        data_dir=data_dir,
        wan=True,
        ephemeral_ports=True,
        worker_options=("--concurrency", str(concurrency)),
    )
    fleet = EmbeddedFleet(load(config), options)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(fleet.stop)
        await fleet.start()
        yield {
            region: await stack.enter_async_context(Client(at.grpc, origin_region=region))
            for region, at in fleet.endpoints.items()
        }


class Replay:
    """One run: submits on time, waits for the ledger, reads every task back."""

    def __init__(self, arrivals: Sequence[Arrival], ledger: Path, out: Console) -> None:
        """`ledger` is the file that the handlers append to."""
        self._arrivals, self._ledger, self._out = arrivals, ledger, out
        self.submitted_ns: dict[int, int] = {}
        self.receipts: dict[int, Receipt] = {}
        self.refused: dict[int, TradewindError] = {}
        self.tasks: dict[int, TaskView] = {}
        self.late_s = 0.0  # how far submits fell behind the trace, at worst

    async def run(self, routers: Mapping[str, Client]) -> None:
        """Replay everything."""
        with self._bar() as progress:
            await self._submit(routers, progress)
            await self._finished(progress)
            await self._read_back(routers, progress)

    def runs(self) -> list[Run]:
        """Read the ledger."""
        if not self._ledger.exists():
            return []
        runs: list[Run] = []
        for line in self._ledger.read_text(encoding="utf-8").splitlines():
            arrival, task_id, region, attempt, started_ns = line.split()
            runs.append(Run(int(arrival), task_id, region, int(attempt), int(started_ns)))
        return runs

    async def _submit(self, routers: Mapping[str, Client], progress: Progress) -> None:
        shown = progress.add_task("submitted", total=len(self._arrivals))
        clock = asyncio.get_running_loop().time

        async def one(arrival: Arrival) -> None:
            args = {"arrival": arrival.index, "seconds": arrival.seconds}
            self.submitted_ns[arrival.index] = time.monotonic_ns()
            try:
                client = routers[arrival.origin]
                self.receipts[arrival.index] = await client.submit("llm.generate", args)
            except TradewindError as error:
                self.refused[arrival.index] = error
            progress.advance(shown)

        start = clock()
        async with asyncio.TaskGroup() as group:
            for arrival in self._arrivals:
                ahead = start + arrival.at_s - clock()
                if ahead > 0:
                    await asyncio.sleep(ahead)
                else:
                    self.late_s = max(self.late_s, -ahead)
                group.create_task(one(arrival))

    async def _finished(self, progress: Progress) -> None:
        shown = progress.add_task("finished", total=len(self.receipts))
        done, clock = 0, time.monotonic
        heard_at = clock()
        while done < len(self.receipts):
            await asyncio.sleep(0.5)
            now_done = len({run.arrival for run in self.runs()})
            if now_done > done:
                heard_at = clock()
            done = now_done
            progress.update(shown, completed=done)
            if clock() - heard_at > _IDLE_S:
                return  # the summary says what is missing

    async def _read_back(self, routers: Mapping[str, Client], progress: Progress) -> None:
        shown = progress.add_task("read back", total=len(self.receipts))
        room = asyncio.Semaphore(_READS)

        async def one(index: int, receipt: Receipt) -> None:
            async with room:
                with contextlib.suppress(TradewindError):  # the summary counts what is missing
                    self.tasks[index] = await routers[receipt.region].get(receipt.task_id)
            progress.advance(shown)

        async with asyncio.TaskGroup() as group:
            for index, receipt in self.receipts.items():
                group.create_task(one(index, receipt))

    def _bar(self) -> Progress:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        return Progress(
            *columns, TimeElapsedColumn(), console=self._out, disable=not self._out.is_terminal
        )


def options_of(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path, metavar="TRACE.csv")
    parser.add_argument("--speed", type=float, default=60.0, help="times faster than real")
    parser.add_argument("--rtt", type=Path, metavar="MATRIX.csv", help="round trips, ms")
    parser.add_argument("--regions", default=DEFAULT_REGIONS, help="names as in the matrix")
    parser.add_argument("--limit", type=int, help="only the first N arrivals")
    parser.add_argument("--concurrency", type=int, default=128, help="slots of each worker pool")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the summary here, too")
    options = parser.parse_args(argv)
    if options.speed <= 0:
        parser.error("--speed must be over 0")
    if not options.trace.exists():
        parser.error(f"there is no {options.trace}")
    return options


async def replay(options: argparse.Namespace, data_dir: Path, out: Console) -> Summary:
    """Run the whole replay in `data_dir`."""
    names = [name.strip() for name in options.regions.split(",")]
    regions = [slug(name) for name in names]
    arrivals = read_trace(options.trace, options.speed, regions, options.limit)
    rtt = read_rtt(options.rtt, names)
    config, ledger = data_dir / "regions.yaml", data_dir / "ledger"
    write_config(config, names, rtt)
    os.environ[LEDGER_VARIABLE] = str(ledger)  # the workers inherit it
    out.print(
        f"{len(arrivals):,} arrivals at {options.speed:g}x: {arrivals[-1].at_s:.0f} s from "
        f"{', '.join(names)}"
    )
    run = Replay(arrivals, ledger, out)
    async with running_fleet(config, data_dir, options.concurrency) as routers:
        await run.run(routers)
    origins = {arrival.index: arrival.origin for arrival in arrivals}
    return summarise(
        regions=regions,
        origins=origins,
        submitted_ns=run.submitted_ns,
        receipts=run.receipts,
        refused=run.refused,
        tasks=run.tasks,
        runs=run.runs(),
        late_s=run.late_s,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Replay and report. Gives the exit code."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    options = options_of(argv)
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    data_dir = Path(tempfile.mkdtemp(prefix="tradewind-replay-"))
    try:
        summary = asyncio.run(replay(options, data_dir, out))
    except BadInput as error:
        print(f"Error: {error}", file=sys.stderr)
        shutil.rmtree(data_dir, ignore_errors=True)
        return 2
    except TradewindError as error:
        print(f"Error: {error}; logs: {data_dir / 'logs'}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        shutil.rmtree(data_dir, ignore_errors=True)
        return 130
    show(summary, out)
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(summary), indent=2), encoding="utf-8")
    if not summary.is_sound:
        print(f"Not everything is accounted for; logs: {data_dir / 'logs'}", file=sys.stderr)
        return 1
    shutil.rmtree(data_dir, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
