"""What is counted while a world runs."""

from collections import defaultdict
from dataclasses import dataclass, field

BUCKET_S = 10.0  # of shares over time


@dataclass(slots=True)
class Tally:
    """Counts of one run, from `from_s` on: what came before was warming up."""

    from_s: float
    start_delays_s: list[float] = field(default_factory=list[float])
    simulated: int = 0  # submits, those of the warm-up too
    submitted: int = 0
    with_place: int = 0  # of these, a permitted region could take it
    succeeded: int = 0
    succeeded_with_place: int = 0
    stored: int = 0
    at_home: int = 0
    outside_fence: int = 0
    drained_hits: int = 0  # stored where operators had said no, later than the settle time
    # bucket -> region -> tasks that arrived
    arrived: dict[int, dict[str, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )
    work_s: dict[int, dict[str, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )  # the same, in seconds that they will take a slot
    guests: dict[int, dict[str, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )  # tasks of other regions' callers
    submits: dict[int, list[int]] = field(
        default_factory=lambda: defaultdict(lambda: [0, 0])
    )  # bucket -> submitted, succeeded
    # (router, region) -> when it became eligible or not, and the state now
    changes: dict[tuple[str, str], list[float]] = field(
        default_factory=lambda: defaultdict(list[float])
    )
    eligible: dict[tuple[str, str], bool] = field(default_factory=dict[tuple[str, str], bool])

    def sees(self, now_s: float, router: str, region: str, *, eligible: bool) -> None:
        """Note whether a router would send unfenced tasks to a region."""
        key = (router, region)
        if self.eligible.get(key, True) is not eligible:
            self.changes[key].append(now_s)
        self.eligible[key] = eligible
