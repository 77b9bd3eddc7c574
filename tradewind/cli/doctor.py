"""tradewind doctor: what is wrong with each region's Redis, and the commands that mend it."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tradewind.cli.outcome import DONE, FAILED, UNREACHABLE, Unusable
from tradewind.cli.session import examples, json_option, slow

if TYPE_CHECKING:
    from tradewind.doctor import Finding, RegionFacts
    from tradewind.fleet import Fleet, Region


@click.command(
    short_help="Check each region's Redis, and say what to fix.",
    epilog=examples(
        "tradewind doctor",
        "tradewind doctor --config regions.yaml --region us-east --strict",
        "tradewind doctor --json | jq '.regions[].findings[] | select(.severity == \"error\")'",
    ),
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=Path("regions.yaml"),
    show_default=True,
    metavar="FILE",
    help="The policy file that names the regions.",
)
@click.option("--region", "only", multiple=True, metavar="NAME", help="Only this one; repeatable.")
@click.option("--strict", is_flag=True, help="Warnings exit 1, too.")
@json_option
def doctor(config: Path, only: tuple[str, ...], *, strict: bool, as_json: bool) -> int:
    """Check the Redis of each region in FILE, from here and without a router.

    Reads only. Each finding says what it means and which command mends it. Exits 0 if nothing is
    worse than a warning, 1 if something is an error, 2 for a file that cannot be used, 3 if a
    region does not answer.
    """
    from tradewind import regions  # noqa: PLC0415 - YAML and pydantic are slow to import
    from tradewind.cli import show  # noqa: PLC0415 - so is rich
    from tradewind.cli.doctor_sheet import print_report  # noqa: PLC0415
    from tradewind.doctor import Severity, worst  # noqa: PLC0415
    from tradewind.policy_file import placed, redis_at  # noqa: PLC0415

    fleet = placed(regions.load(config), redis_at())  # under `tradewind up` it may be elsewhere
    for name in only:
        if name not in fleet.regions:
            raise Unusable(f"{config} has no region {name}; it has {', '.join(fleet.regions)}")
    chosen = [region for name, region in fleet.regions.items() if not only or name in only]
    report = asyncio.run(_look(fleet, chosen))
    if as_json:
        show.emit({"regions": [_as_json(region, findings) for region, findings in report]})
    else:
        print_report(show.console(), report)
    if not all(region.is_reachable for region, _ in report):
        return UNREACHABLE
    most = worst([finding for _, findings in report for finding in findings])
    return FAILED if most >= (Severity.WARNING if strict else Severity.ERROR) else DONE


async def _look(
    fleet: "Fleet", chosen: "list[Region]"
) -> "list[tuple[RegionFacts, list[Finding]]]":
    """Look at the regions side by side."""
    from tradewind.clock import SystemClock  # noqa: PLC0415 - as above
    from tradewind.doctor import examine, needs_of, side_by_side  # noqa: PLC0415
    from tradewind.store.checkup import check_up  # noqa: PLC0415
    from tradewind.store.identity import FORMAT, OLDEST_FORMAT  # noqa: PLC0415

    needs = needs_of(fleet, range(OLDEST_FORMAT, FORMAT + 1))
    clock = SystemClock()
    async with slow("Still waiting for an answer of every region."):
        facts = await asyncio.gather(*(check_up(region, fleet, clock) for region in chosen))
    servers = [  # of Sentinels these are not known
        address
        for region in fleet.regions.values()
        if region.redis.kind != "sentinel"
        for address in region.redis.nodes
    ]
    return [(region, examine(region, needs)) for region in side_by_side(facts, servers)]


def _as_json(region: "RegionFacts", findings: "list[Finding]") -> dict[str, Any]:
    from tradewind.doctor import worst  # noqa: PLC0415 - as above

    return {
        "name": region.name,
        "kind": region.kind,
        "reachable": region.is_reachable,
        "severity": worst(findings).name.lower(),
        "nodes": [
            {
                "address": node.address,
                "primary": node.is_primary,
                "version": node.info.get("redis_version", ""),
                "ping_ms": round(node.ping_ms, 3),
                "used_memory": node.number("used_memory"),
                "maxmemory": node.number("maxmemory"),
            }
            for node in region.nodes
        ],
        "findings": [
            {
                "severity": finding.severity.name.lower(),
                "check": finding.check,
                "found": finding.found,
                "means": finding.means,
                "mend": finding.mend,
                "advice": finding.advice,
                "nodes": finding.nodes,
            }
            for finding in findings
        ],
    }
