"""`tradewind router`: reads the command line, builds the parts, serves.

Exit status: 0 done, 1 failed, 2 wrong usage or an invalid file.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from router.gateway import Gateway
from router.processes import CHILD, Processes, reload_all
from router.server import Server
from tradewind import logs, metrics, startup
from tradewind.clock import SystemClock
from tradewind.errors import ConfigError, SetupError
from tradewind.http import HttpServer, check_bind, parse_address
from tradewind.limits import SECOND_MS
from tradewind.litter import rarely_collected
from tradewind.local import metrics_dir
from tradewind.policy_file import LAST_GOOD, PolicyFile
from tradewind.startup import (
    FAILED,
    WRONG_USAGE,
    check_region,
    on_hangup,
    run,
    run_parent,
    serve_http,
    withstand_hangup,
)
from tradewind.stops import Stops
from tradewind.store.region_store import RegionStore

DEFAULT_LISTEN: Final = "127.0.0.1:7070"
DEFAULT_HTTP: Final = "127.0.0.1:8070"
_EXAMPLE: Final = """example:
  tradewind router --config regions.yaml --region eu-west --listen 127.0.0.1:7070
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a router. Returns the exit status; what went wrong is one sentence on stderr."""
    arguments = _parser().parse_args(argv)
    withstand_hangup()
    logs.setup("router", region=arguments.region)
    metrics_dir.hold_inherited()
    try:
        first = os.environ.pop(LAST_GOOD, "")
        policy = PolicyFile(arguments.config, arguments.region, first=first)
        check_region(policy.fleet, arguments.region, arguments.config)
        host, _ = parse_address(arguments.listen)
        check_bind(host, insecure_bind=arguments.insecure_bind)
    except (ConfigError, SetupError) as error:
        return _say(error, WRONG_USAGE)
    try:
        if arguments.processes > 1:
            return run_parent(_serve_processes(arguments, policy))
        return run(_serve(arguments, policy))
    except SetupError as error:
        return _say(error, FAILED)


async def _serve(arguments: argparse.Namespace, policy: PolicyFile) -> int:
    """Serve until SIGTERM or SIGINT; a second one ends the waiting for RPCs under way.

    SIGHUP reads the policy file again.
    """
    is_child = CHILD in os.environ
    is_first = os.environ.get(CHILD, "0") == "0"
    gateway = Gateway(
        policy.fleet,
        arguments.region,
        RegionStore,
        SystemClock(),
        counts=is_first,
        reload=partial(reload_all, policy) if is_child else policy.reload,
        allow_eviction=arguments.allow_eviction,
    )
    policy.tell(gateway.follow)
    server = Server(gateway, arguments.listen, reuse_port=is_child)
    http = (
        None
        if is_child
        else serve_http(
            arguments.http,
            server.ready,
            metrics.exposition,
            insecure_bind=arguments.insecure_bind,
        )
    )
    stop, hurry = _signals(policy.ask)
    try:
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(gateway.run())
            starting = group.create_task(gateway.greet())
            await gateway.first_look(policy.fleet.health.timeout_ms / SECOND_MS)
            await server.start()
            judging = group.create_task(server.run())
            following = group.create_task(policy.run())
            if not is_child:
                _announce(server.address, http)
            async with rarely_collected():
                await stop.wait()
                await server.stop(hurry)
            for task in (looking, judging, following, starting):
                task.cancel()
    finally:
        if http is not None:
            http.stop()
        await gateway.disconnect()
    return 0


async def _serve_processes(arguments: argparse.Namespace, policy: PolicyFile) -> int:
    options = ["--config", arguments.config, "--region", arguments.region]
    if arguments.insecure_bind:
        options.append("--insecure-bind")
    if arguments.allow_eviction:
        options.append("--allow-eviction")
    processes = Processes(options, arguments.processes, arguments.listen, policy)
    http = serve_http(
        arguments.http,
        processes.ready,
        processes.metrics,
        insecure_bind=arguments.insecure_bind,
    )
    _announce(processes.address, http)
    try:
        return await processes.run()
    finally:
        http.stop()


def _announce(address: str, http: HttpServer | None) -> None:
    sys.stdout.write(f"ready grpc={address} http={http.address if http else '-'}\n")
    sys.stdout.flush()


def _signals(reload: Callable[[], None]) -> tuple[asyncio.Event, asyncio.Event]:
    """(stop, hurry): set by the first and the second SIGTERM or SIGINT. SIGHUP calls `reload`."""
    stop, hurry, stops = asyncio.Event(), asyncio.Event(), Stops()

    def signalled() -> None:
        if not stops.is_new():
            return
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signalled)
    on_hangup(reload, signalled)
    return stop, hurry


def _say(error: Exception, status: int) -> int:
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(f"tradewind router: {error}\n")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tradewind router",
        description="Takes tasks by gRPC and stores each in the best permitted region.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--config", required=True, metavar="FILE", help="regions.yaml")
    add("--region", required=True, help="the region this router stands in, as named in the file")
    add(
        "--listen",
        type=startup.address,
        default=DEFAULT_LISTEN,
        metavar="HOST:PORT",
        help=f"gRPC (default: {DEFAULT_LISTEN}; port 0 takes a free one)",
    )
    add(
        "--http",
        type=startup.address,
        default=DEFAULT_HTTP,
        metavar="HOST:PORT",
        help=f"metrics and probes (default: {DEFAULT_HTTP})",
    )
    add(
        "--processes",
        type=startup.processes,
        default=1,
        metavar="N",
        help="router processes (default: 1)",
    )
    add(
        "--allow-eviction",
        action="store_true",
        help="use regions whose Redis deletes tasks when it is full (maxmemory-policy)",
    )
    add(
        "--insecure-bind",
        action="store_true",
        help="serve beyond this machine, though nothing protects the ports yet",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
