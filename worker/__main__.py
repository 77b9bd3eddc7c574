"""`tradewind worker`: reads the command line, builds the parts, runs them.

Exit status: 0 done, 1 failed, 2 wrong usage or an invalid file, 3 not reachable.
"""

import argparse
import asyncio
import contextlib
import io
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NoReturn, TypeVar

from tradewind import __version__, logs, metrics, regions
from tradewind.clock import SystemClock
from tradewind.errors import ConfigError, IdentityMismatch, SetupError
from tradewind.fleet import Fleet
from tradewind.handlers import App
from tradewind.http import HttpServer, Ready, check_bind, parse_address
from tradewind.store.region_store import RegionStore
from worker.apps import load_app
from worker.pool import Pool, new_worker_id
from worker.processes import Processes, report_readiness
from worker.service import Service

T = TypeVar("T")

FAILED: Final = 1
WRONG_USAGE: Final = 2
DEFAULT_CONCURRENCY: Final = 10  # Celery and BullMQ start with a handful, too (peers.md section 4)
DEFAULT_GRACE_S: Final = 25.0  # inside the 30 s that Kubernetes gives a pod
MAX_PROCESSES: Final = 256
MAX_CONCURRENCY: Final = 10_000
MAX_GRACE_S: Final = 86_400
_EXAMPLE: Final = """example:
  tradewind worker --config regions.yaml --region eu-west --app ./tasks.py:app --concurrency 20
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker. Returns the exit status; what went wrong is one sentence on stderr."""
    arguments = _parser().parse_args(argv)
    logs.setup("worker", region=arguments.region)
    try:
        fleet = regions.load(arguments.config)
        _check_region(fleet, arguments)
        if arguments.http:
            check_bind(parse_address(arguments.http)[0], insecure_bind=arguments.insecure_bind)
        app = load_app(arguments.app)
    except (ConfigError, SetupError) as error:
        return _say(error, WRONG_USAGE)
    try:
        if arguments.processes > 1:
            return _run_processes(arguments)
        return _run_one(arguments, fleet, app)
    except IdentityMismatch as error:
        return _say(error, WRONG_USAGE)
    except SetupError as error:
        return _say(error, FAILED)


def _run_one(arguments: argparse.Namespace, fleet: Fleet, app: App) -> int:
    clock = SystemClock()
    pool = Pool(
        worker_id=new_worker_id(arguments.region),
        region=arguments.region,
        queues=arguments.queues or tuple(dict.fromkeys(("default", *fleet.queues))),
        concurrency=arguments.concurrency,
        fleet=fleet,
        app=app,
        version=__version__,
        started_ms=clock.now_ms(),
    )

    async def work() -> None:
        home, *others = (
            RegionStore(fleet.regions[name], fleet)
            for name in sorted(fleet.regions, key=lambda name: name != pool.region)
        )
        service = Service(
            pool,
            home=home,
            others={other.region: other for other in others},
            open_leases=lambda: RegionStore(fleet.regions[pool.region], fleet),
            clock=clock,
            on_ready=report_readiness,
        )
        http = _serve(arguments, service.ready, metrics.exposition)
        try:
            await service.run(arguments.grace)
        finally:
            if http is not None:
                http.stop()

    _run(work())
    return 0


def _run_processes(arguments: argparse.Namespace) -> int:
    child = ["--config", arguments.config, "--region", arguments.region, "--app", arguments.app]
    child += ["--concurrency", str(arguments.concurrency), "--grace", str(arguments.grace)]
    if arguments.queues:
        child += ["--queues", ",".join(arguments.queues)]

    async def work() -> int:
        processes = Processes(child, arguments.processes)
        http = _serve(arguments, processes.ready, processes.metrics)
        try:
            return await processes.run()
        finally:
            if http is not None:
                http.stop()

    return _run(work())


def _serve(
    arguments: argparse.Namespace, ready: Ready, exposition: Callable[[], bytes]
) -> HttpServer | None:
    if not arguments.http:
        return None
    http = HttpServer(
        arguments.http, ready=ready, metrics=exposition, insecure_bind=arguments.insecure_bind
    )
    http.start()
    return http


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop where there is one."""
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def _check_region(fleet: Fleet, arguments: argparse.Namespace) -> None:
    if arguments.region not in fleet.regions:
        known = ", ".join(fleet.regions)
        raise SetupError(f"{arguments.config} has no region {arguments.region}; it has {known}")


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
        "--processes", type=_processes, default=1, metavar="N", help="worker processes (default: 1)"
    )
    add("--http", type=_address, metavar="HOST:PORT", help="metrics and probes")
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
    return _whole(text, MAX_CONCURRENCY)


def _processes(text: str) -> int:
    return _whole(text, MAX_PROCESSES)


def _whole(text: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= MAX_GRACE_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 to {MAX_GRACE_S}")
    return value


def _address(text: str) -> str:
    try:
        parse_address(text)
    except SetupError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


if __name__ == "__main__":
    sys.exit(main())
