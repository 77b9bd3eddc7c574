"""What doctor says: one finding a check, each with a severity and what mends it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from tradewind.doctor.facts import NodeFacts
from tradewind.doctor.sizes import several
from tradewind.fleet import Durability, Fleet


class Severity(IntEnum):
    """How bad it is, in order."""

    OK = 0
    INFO = 1  # worth knowing; nothing is wrong
    WARNING = 2  # works now, and will not when something else fails
    ERROR = 3  # work is refused, lost, or done wrongly, or the region is not used at all


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    `mend` are Redis commands, to be sent to each of `nodes`, with what others named quoted as for a
    shell; `advice` is for what no command does.
    """

    severity: Severity
    check: str  # what was looked at, in a word or two: stable, for programs
    found: str  # how it is
    means: str = ""  # and what follows from it; empty where that is nothing
    mend: tuple[str, ...] = ()
    advice: str = ""
    nodes: tuple[str, ...] = ()  # empty: the region as a whole


@dataclass(frozen=True, slots=True)
class Needs:
    """What regions.yaml wants of every region's Redis."""

    deployment: str
    partitions: int
    formats: range  # that this version reads
    fsync: tuple[str, ...] = ()  # queues with that durability
    replica: tuple[str, ...] = ()


def needs_of(fleet: Fleet, formats: range) -> Needs:
    """Read them off the file."""

    def named(durability: Durability) -> tuple[str, ...]:
        queues = {"default": fleet.default_queue, **fleet.queues}
        return tuple(name for name, policy in queues.items() if policy.durability == durability)

    return Needs(fleet.deployment, fleet.partitions, formats, named("fsync"), named("replica"))


def together(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for what is mended alike at several nodes; the worst first, else as they came."""
    alike: dict[Finding, list[Finding]] = {}
    for finding in findings:
        alike.setdefault(replace(finding, found="", nodes=()), []).append(finding)
    joined = [
        replace(
            what,
            found=several(tuple(dict.fromkeys(each.found for each in some)), between="; "),
            nodes=tuple(dict.fromkeys(node for each in some for node in each.nodes)),
        )
        for what, some in alike.items()
    ]
    return sorted(joined, key=lambda finding: -finding.severity)


def worst(findings: Sequence[Finding]) -> Severity:
    """The worst of them; OK if there are none."""
    return max((finding.severity for finding in findings), default=Severity.OK)


def at(
    node: NodeFacts,
    severity: Severity,
    check: str,
    found: str,
    means: str = "",
    mend: tuple[str, ...] = (),
    *,
    advice: str = "",
) -> Finding:
    """Return a finding about one node."""
    return Finding(severity, check, found, means, mend, advice, (node.address,))
