"""`tradewind worker`: reads the command line, builds the parts, runs them.

Exit status: 0 done, 1 failed, 2 wrong usage or an invalid file, 3 not reachable, 75 to be replaced,
since too many handlers are stuck, or one holds the event loop.
"""

import argparse
import asyncio
import contextlib
import io
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from tradewind import __version__, logs, metrics, startup
from tradewind.clock import Clock, SystemClock
from tradewind.errors import ConfigError, IdentityMismatch, SetupError
from tradewind.fleet import Fleet
from tradewind.handlers import App
from tradewind.http import HttpServer, Ready, check_bind, parse_address
from tradewind.local import metrics_dir
from tradewind.policy_file import LAST_GOOD, PolicyFile
from tradewind.startup import (
    FAILED,
    WRONG_USAGE,
    check_region,
    run,
    run_parent,
    whole,
    withstand_hangup,
)
from tradewind.store.region_store import RegionStore
from worker import kernel, streams
from worker.apps import load_app
from worker.children import Children
from worker.herald import Sender
from worker.opens import Opens
from worker.pool import Pool, new_worker_id, queues_of
from worker.processes import Processes, readiness_line
from worker.service import Service
from worker.watch import WORN_OUT

DEFAULT_CONCURRENCY: Final = 10  # a handful; own choice
DEFAULT_GRACE_S: Final = 25.0  # inside the 30 s that Kubernetes gives a pod
MAX_CONCURRENCY: Final = 10_000
MAX_GRACE_S: Final = 86_400
_EXAMPLE: Final = """example:
  tradewind worker --config regions.yaml --region eu-west --app ./tasks.py:app --concurrency 20

exit status 75: too many handlers are stuck past their time limits, or one of them holds the event
loop; start it anew
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker. Returns the exit status; what went wrong is one sentence on stderr."""
    try:
        return _main(argv)
    finally:
        streams.let_go()


def _main(argv: Sequence[str] | None) -> int:
    arguments = _parser().parse_args(argv)
    withstand_hangup()
    logs.setup("worker", region=arguments.region)
    metrics_dir.hold_inherited()
    tell_parent = readiness_line()
    try:
        first = os.environ.pop(LAST_GOOD, "")
        policy = PolicyFile(arguments.config, arguments.region, first=first)
        check_region(policy.fleet, arguments.region, arguments.config)
        if arguments.http:
            check_bind(parse_address(arguments.http)[0], insecure_bind=arguments.insecure_bind)
        if policy.fleet.sends_webhooks:
            _webhooks(arguments.config)
        directory = Path.cwd()  # before the app can change it: its children are to find it, too
        app = load_app(arguments.app)
    except (ConfigError, SetupError) as error:
        return _say(error, WRONG_USAGE)
    try:
        if arguments.processes > 1:
            return _run_processes(arguments, policy)
        return _run_one(arguments, policy, app, directory, tell_parent)
    except IdentityMismatch as error:
        return _say(error, WRONG_USAGE)
    except SetupError as error:
        return _say(error, FAILED)


def _run_one(
    arguments: argparse.Namespace,
    policy: PolicyFile,
    app: App,
    directory: Path,
    on_ready: Callable[[bool, str], None],
) -> int:
    clock, fleet = SystemClock(), policy.fleet
    pool = Pool(
        worker_id=new_worker_id(arguments.region),
        region=arguments.region,
        queues=arguments.queues or queues_of(fleet),
        concurrency=arguments.concurrency,
        fleet=fleet,
        app=app,
        version=__version__,
        started_ms=clock.now_ms(),
        chosen_queues=bool(arguments.queues),
        allow_eviction=arguments.allow_eviction,
    )

    def open_sender(fleet: Fleet, clock: Clock) -> Sender | None:
        return _webhooks(arguments.config)(clock) if fleet.sends_webhooks else None

    async def work() -> int:
        kernel.end_copies(asyncio.get_running_loop())
        service = Service(
            pool,
            policy=policy,
            opens=Opens(RegionStore, RegionStore, RegionStore, open_sender),
            children=Children(arguments.app, region=pool.region, directory=directory),
            clock=clock,
            on_ready=on_ready,
        )
        http = _serve(arguments, service.ready, metrics.exposition)
        try:
            await service.run(arguments.grace)
        finally:
            if http is not None:
                http.stop()
        status = WORN_OUT if service.worn_out else 0
        if service.left_behind:
            _leave_at_once(status)
        return status

    return run(work())


def _leave_at_once(status: int) -> NoReturn:
    """End without what an interpreter does at its end: it waits for some threads, for ever."""
    logging.shutdown()
    streams.flush()
    os._exit(status)


def _webhooks(config: str) -> Callable[[Clock], Sender]:
    """What opens the worker's side of webhooks. Raises SetupError."""
    try:
        from worker.webhooks import Webhooks  # noqa: PLC0415 - an extra that most do without
    except ModuleNotFoundError as missing:
        raise SetupError(
            f"{config} has an on_dead webhook, and {missing.name} is not installed: "
            "pip install 'tradewind[webhooks]'"
        ) from None
    return Webhooks


def _run_processes(arguments: argparse.Namespace, policy: PolicyFile) -> int:
    child = ["--config", arguments.config, "--region", arguments.region, "--app", arguments.app]
    child += ["--concurrency", str(arguments.concurrency), "--grace", str(arguments.grace)]
    if arguments.queues:
        child += ["--queues", ",".join(arguments.queues)]
    if arguments.allow_eviction:
        child.append("--allow-eviction")

    async def work() -> int:
        processes = Processes(child, arguments.processes, policy)
        http = _serve(arguments, processes.ready, processes.metrics)
        try:
            return await processes.run()
        finally:
            if http is not None:
                http.stop()

    return run_parent(work())


def _serve(
    arguments: argparse.Namespace, ready: Ready, exposition: Callable[[], bytes]
) -> HttpServer | None:
    if not arguments.http:
        return None
    return startup.serve_http(
        arguments.http, ready, exposition, insecure_bind=arguments.insecure_bind
    )


def _say(error: Exception, status: int) -> int:
    sys.stderr.write(f"tradewind worker: {error}\n")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tradewind worker",
        description="Runs tasks of one region: claims them, calls your handlers, keeps the result.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--config", required=True, metavar="FILE", help="regions.yaml")
    add("--region", required=True, help="the region whose tasks it runs, as named in the file")
    add(
        "--check-app",
        action=_CheckApp,
        metavar="MODULE:NAME",
        help="only import an app and say what is wrong with it; needs no other option",
    )
    add("--app", required=True, metavar="MODULE:NAME", help="your app, or ./file.py:NAME")
    add(
        "--queues",
        type=_names,
        default=(),
        metavar="A,B",
        help="queues it serves (default: those of the file, and default)",
    )
    add(
        "--concurrency",
        type=_concurrency,
        default=DEFAULT_CONCURRENCY,
        metavar="N",
        help=f"tasks a process runs at the same time (default: {DEFAULT_CONCURRENCY})",
    )
    add(
        "--processes",
        type=startup.processes,
        default=1,
        metavar="N",
        help="worker processes (default: 1)",
    )
    add("--http", type=startup.address, metavar="HOST:PORT", help="metrics and probes")
    add(
        "--allow-eviction",
        action="store_true",
        help="move tasks also to regions whose Redis deletes tasks when it is full",
    )
    add(
        "--insecure-bind", action="store_true", help="serve --http beyond this machine, unprotected"
    )
    add(
        "--grace",
        type=_seconds,
        default=DEFAULT_GRACE_S,
        metavar="S",
        help=f"seconds to finish what runs after SIGTERM (default: {DEFAULT_GRACE_S:g})",
    )
    return parser


class _CheckApp(argparse.Action):
    """Ends the process as soon as it is met, as --help does: 0, or 2 and a sentence on stderr."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002 - of argparse
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002 - of argparse
    ) -> NoReturn:
        said = io.StringIO()  # what the app prints on import is not the answer
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                load_app(str(values))
        except SetupError as error:
            parser.exit(WRONG_USAGE, f"{error}\n")
        parser.exit()


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise argparse.ArgumentTypeError("names no queue")
    return names


def _concurrency(text: str) -> int:
    if text == "auto":
        raise argparse.ArgumentTypeError("auto is not served in this release; give a number")
    return whole(text, MAX_CONCURRENCY)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= MAX_GRACE_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 to {MAX_GRACE_S}")
    return value


if __name__ == "__main__":
    sys.exit(main())
