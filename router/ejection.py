"""How many regions of a residency group may be out by soft evidence at the same time. Pure.

Errors by share may be the fault of the one who counts. So of each group at most half its regions
are out, and never the last, as far as that is all there is against them. A region that refuses or
does not answer is out all the same: tasks that are sent there only wait for their time to run out.
"""

from collections.abc import Collection, Iterable, Mapping

ALL = ""  # the group of all regions


def groups_of(residency: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Return the regions of each group, and of the fleet; `residency` is each region's groups."""
    found: dict[str, set[str]] = {ALL: set(residency)}
    for region, groups in residency.items():
        for group in groups:
            found.setdefault(group, set()).add(region)
    return {group: frozenset(regions) for group, regions in found.items()}


def kept(
    soft: Iterable[str], hard: Collection[str], groups: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """Return which of `soft`, in the order in which they go out, have to stay in.

    `hard` are out whatever this says.
    """
    out, stays = set(hard), set[str]()
    for region in soft:
        mine = [regions for regions in groups.values() if region in regions]
        if all(2 * (len(out & regions) + 1) <= len(regions) for regions in mine):
            out.add(region)
        else:
            stays.add(region)
    return frozenset(stays)
