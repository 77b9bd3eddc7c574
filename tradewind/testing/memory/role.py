"""What the parts of a store in memory share."""

from tradewind.testing.memory.room import Room


class Role:
    """One side of a region's store; the room is shared by all sides."""

    def __init__(self, room: Room) -> None:
        """`room` of the region."""
        self.room = room

    @property
    def region(self) -> str:
        """Name of the region."""
        return self.room.region

    @property
    def partitions(self) -> int:
        """How many partitions the region has."""
        return self.room.fleet.partitions
