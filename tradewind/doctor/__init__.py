"""What is wrong with a region's Redis, and what mends it: facts in, findings out. Pure.

The facts are gathered by tradewind.store.checkup, and shown by `tradewind doctor`.
"""

from tradewind.doctor.facts import (
    KeySample,
    NodeFacts,
    PartitionFacts,
    RegionFacts,
    Rights,
    SilentNode,
    Watcher,
)
from tradewind.doctor.findings import Finding, Needs, Severity, needs_of, together, worst
from tradewind.doctor.machines import side_by_side
from tradewind.doctor.node import node_findings
from tradewind.doctor.region import region_findings

__all__ = [
    "Finding",
    "KeySample",
    "Needs",
    "NodeFacts",
    "PartitionFacts",
    "RegionFacts",
    "Rights",
    "Severity",
    "SilentNode",
    "Watcher",
    "examine",
    "needs_of",
    "side_by_side",
    "together",
    "worst",
]


def examine(region: RegionFacts, needs: Needs) -> list[Finding]:
    """Return everything there is to say of a region, the worst first; what is well comes last."""
    found = [finding for node in region.nodes for finding in node_findings(node, needs)]
    return together([*region_findings(region, needs), *found])
