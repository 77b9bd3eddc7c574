"""Why nothing can be said of a task."""

from collections.abc import Sequence

from tradewind.errors.base import TradewindError


class UnknownTask(TradewindError):
    """Every region said that it does not know the task."""

    reason = "UNKNOWN_TASK"

    def __init__(self, task_id: str) -> None:
        """`task_id` as asked for."""
        self.task_id = task_id
        super().__init__(f"no region knows task {task_id}; it may be past its retention")


class RegionSilent(TradewindError):
    """A question needs every region's answer and some did not answer."""

    retryable = True
    reason = "REGION_SILENT"

    def __init__(self, regions: Sequence[str]) -> None:
        """`regions` that did not answer."""
        self.regions = tuple(regions)
        super().__init__(
            f"no answer from region {', '.join(self.regions)}: what it holds is kept there and "
            "goes on once it is back; ask again then (`tradewind regions` tells)",
        )
