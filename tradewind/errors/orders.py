"""Why an operator's order was not carried out."""

from collections.abc import Sequence

from tradewind.errors.base import TradewindError


class LastRegion(TradewindError):
    """An order would leave a fence of the policy without a region that takes new work."""

    reason = "LAST_REGION"

    def __init__(self, region: str, fence: str) -> None:
        """`fence`: whose tasks would have nowhere to go."""
        self.region, self.fence = region, fence
        super().__init__(
            f"region {region} is the last one that takes new work for {fence}; "
            "activate another one first, or say --force",
        )


class RegionTakesWork(TradewindError):
    """A region cannot be emptied while new work comes in."""

    reason = "REGION_TAKES_WORK"

    def __init__(self, region: str) -> None:
        """`region` that is ACTIVE."""
        self.region = region
        super().__init__(
            f"region {region} takes new work; `tradewind cordon {region}` or "
            f"`tradewind drain {region}` first",
        )


class ControlConflict(TradewindError):
    """Other changes of region states or pauses came first, each time it was tried."""

    retryable = True
    reason = "CONTROL_CONFLICT"

    def __init__(self) -> None:
        """Nothing is known but that."""
        super().__init__(
            "another change of region states or pauses came first; look what holds now "
            "(`tradewind regions`, `tradewind queues`), then ask again",
        )


class ControlUnavailable(TradewindError):
    """A change of region states or pauses is not held where it has to be."""

    retryable = True
    reason = "CONTROL_UNAVAILABLE"

    def __init__(self, missing: Sequence[str]) -> None:
        """`missing`: regions that did not take it."""
        self.missing = tuple(missing)
        super().__init__(
            f"no answer from region {', '.join(self.missing)}: most regions, and the one that is "
            "meant, must take the change; it may come into force later: look with "
            "`tradewind regions`, and ask again",
        )


class NotServedYet(TradewindError):
    """The method is part of the contract but not of this release."""

    reason = "NOT_SERVED_YET"
