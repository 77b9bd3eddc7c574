"""Clients that submit through a router: rate, and CPU seconds per 1,000 tasks of everyone."""

from collections.abc import Callable, Sequence

from bench.figures import Metrics
from bench.rig.lab import Lab
from bench.rig.peers import Contender
from bench.rig.processes import Child, answer
from bench.rig.server import Fresh, Store, fresh
from bench.rig.services import Router, Site, drive, held_worker, recording, router, site


def metered(
    work: Callable[[], dict[str, float]], store: Store | None, service: Child | None
) -> Metrics:
    """Run a client, and say what it and the others spent."""
    service_s = service.cpu_s() if service else 0.0
    redis_s = store.cpu_s() if store else 0.0
    said = work()
    thousands = said["n"] / 1000
    metrics = dict(said)
    if "seconds" in said:
        metrics["per_s"] = said["n"] / metrics.pop("seconds")
        metrics["client_s"] = metrics.pop("cpu_s") / thousands
    if service:
        metrics["router_s"] = (service.cpu_s() - service_s) / thousands
    if store:
        metrics["redis_s"] = (store.cpu_s() - redis_s) / thousands
    return metrics


def through(place: Site, gate: Router, mode: str, *options: str) -> Metrics:
    """Drive a running router."""
    return metered(lambda: drive(place, mode, gate.address, *options), place.store, gate.child)


def bulk(
    lab: Lab,
    n: int,
    *options: str,
    others: Sequence[Store] = (),
    processes: int = 1,
    on: Fresh[Store] = fresh,
) -> Metrics:
    """SubmitTasks of 100, 4 outstanding, into an empty region with a live worker."""
    with on(lab.home) as store:
        place = site(lab.home, store, others)
        with router(place, processes=processes) as gate, held_worker(place, gate):
            drive(place, "bulk", gate.address, "--n", "1000")  # scripts are cached, pools are up
            return through(place, gate, "bulk", "--n", str(n), *options)


def direct(lab: Lab, peer: Contender, n: int) -> Metrics:
    """Another queue's own bulk call, straight into an empty Redis."""
    n = min(n, peer.most or n)
    with fresh(lab.home) as server:
        env = {**peer.at(server.url), **recording(lab.home, 1)}
        argv = peer.produce("bulk", n)

        def work() -> dict[str, float]:
            return answer(f"bulk-{peer.name}", argv, lab.home, env=env, cwd=peer.cwd)

        return metered(work, server, None)
