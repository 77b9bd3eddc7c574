"""Why a region's store did not do what it was asked."""

from tradewind.errors.base import TradewindError


class StoreError(TradewindError):
    """Base of what can go wrong between a process and one region's Redis."""

    region: str = ""


class StoreUnavailable(StoreError):
    """The region did not answer. `sent` is False only if certainly no byte was written."""

    retryable = True
    reason = "STORE_UNAVAILABLE"

    def __init__(
        self, region: str, cause: str, *, sent: bool, failed: bool = False, partly: bool = False
    ) -> None:
        """`cause` is ours, never raw Redis text. `failed`: a script did, and will again.

        `partly`: one primary of several, and others are connected.
        """
        self.region, self.cause, self.sent, self.failed = region, cause, sent, failed
        self.partly = partly
        super().__init__(f"region {region} does not answer ({cause})")


class StoreFull(StoreError):
    """Redis refuses writes since its memory is full. Nothing was stored."""

    retryable = True
    reason = "STORE_FULL"

    def __init__(self, region: str, *, partly: bool = False) -> None:
        """`region` that is full. `partly`: others of its primaries have room."""
        self.region, self.partly = region, partly
        super().__init__(f"region {region} is out of memory and refuses new work")


class StoreMoving(StoreError):
    """The partition's slot is between two nodes. Nothing was changed; repeat shortly."""

    retryable = True
    reason = "STORE_MOVING"

    def __init__(self, region: str, partition: int) -> None:
        """`partition` whose slot moves."""
        self.region, self.partition = region, partition
        super().__init__(f"partition {partition} of region {region} is moving; repeat shortly")


class StoreContractBroken(StoreError):
    """A script answered something that its header does not list: a bug, or foreign data."""

    reason = "STORE_CONTRACT_BROKEN"


class IdentityMismatch(StoreError):
    """The Redis behind a URL belongs to another deployment, region or format."""

    reason = "IDENTITY_MISMATCH"

    def __init__(self, region: str, field: str, found: str, expected: str) -> None:
        """`field` of the identity that differs."""
        self.region, self.field, self.found, self.expected = region, field, found, expected
        super().__init__(
            f"the Redis configured for region {region} says {field}={found}, expected {expected}; "
            + (
                "finish its tasks with the version that stored them, or give an empty one"
                if field == "format"
                else "correct the address in regions.yaml"
            ),
        )
