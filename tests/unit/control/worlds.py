"""Small fleets for tests of the control document."""

from tradewind.fleet import Fleet, RedisTarget, Region

NOWHERE = RedisTarget("standalone", ("127.0.0.1:1",))


def fleet_of(*names: str) -> Fleet:
    """Regions that are in no group."""
    return Fleet(regions={name: Region(name, NOWHERE) for name in names}, partitions=16)
