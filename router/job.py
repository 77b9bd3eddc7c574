"""One submit on its way: what it is, by when it must be answered, and what refused it so far."""

import time
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tradewind import codec
from tradewind.admission.identity import Identity
from tradewind.errors import StoreError, TradewindError
from tradewind.fleet import Fleet
from tradewind.ids import birth_partition, partition_of
from tradewind.policy.rules import Resolved
from tradewind.state import State
from tradewind.task import Draft, LedgerMark, NewTask

MIN_LEFT_S: Final = 0.001


class Deadline(NamedTuple):
    """When an answer is due, by this process's monotonic clock."""

    until_s: float
    is_callers: bool  # False: the caller set none, and this is our own patience

    @classmethod
    def after(cls, seconds: float, *, is_callers: bool) -> "Deadline":
        """Due in `seconds` from now."""
        return cls(time.monotonic() + seconds, is_callers)

    def left_s(self) -> float:
        """Seconds left; never less than a positive trifle, so that it can be a time-out."""
        return max(MIN_LEFT_S, self.until_s - time.monotonic())

    def half(self) -> "Deadline":
        """Due in half of the time that is left: something else is to come after."""
        return Deadline.after(self.left_s() / 2, is_callers=False)

    @property
    def is_over(self) -> bool:
        """Whether it has passed."""
        return time.monotonic() >= self.until_s


class Receipt(NamedTuple):
    """A task that is stored."""

    task_id: str
    region: str
    state: State
    duplicate: bool
    rule: str  # what decided the region
    possible_duplicate: bool = False  # a region that would know of an earlier one was silent
    unconfirmed: bool = False  # it is not known to be as durable as its queue asks
    # Homes of its ledger entry, if that was stored apart from it; None: the task has ended.
    kept_at: tuple[str, ...] | None = ()


@dataclass(slots=True)
class Job:
    """One submit. `refused` grows while regions turn it away."""

    draft: Draft
    resolved: Resolved
    identity: Identity
    traceparent: str
    deadline: Deadline
    created_ms: int
    fleet: Fleet
    is_repeat: bool = True  # an earlier attempt may have left something
    kept_at: str = ""  # the home of its ledger entry, once that is settled between two
    rule: str = ""  # of the latest decision
    home_was_silent: bool = False  # and the submit went on without it
    refused: dict[str, StoreError] = field(default_factory=dict[str, StoreError])

    @property
    def is_free(self) -> bool:
        """Whether any partition will do: it has no key by which it is to be found."""
        return self.identity.mark is None and not self.draft.affinity_key

    @property
    def is_redrawn(self) -> bool:
        """Whether its client tries another request_id, and so another partition, if told so."""
        return not self.is_repeat and bool(self.identity.may_spare) and not self.draft.affinity_key

    @property
    def asks_first(self) -> bool:
        """Whether an earlier attempt may have left its entry at either of two homes."""
        return self.is_repeat and self.identity.has_spare

    def permits(self, region: str) -> bool:
        """Whether the task may be stored in `region` at all."""
        pin = self.resolved.pin
        return region in self.fleet.inside(self.resolved.fence) and pin in {"", region}

    def homes(self, region: str) -> tuple[str, ...]:
        """Return where its ledger entry lives, if the task goes to `region`."""
        identity = self.identity
        if identity.also:
            return (identity.home, identity.also)
        return (self.kept_at or identity.home or region,)

    @property
    def accepts_silence(self) -> bool:
        """Whether the task is to be stored although a home of its entry is silent."""
        asked = self.fleet.queue(self.draft.queue).dedup.on_home_unreachable == "accept"
        return asked and self.identity.deduplicated and bool(self.identity.home)

    def starts_over(self) -> None:
        """Forget where the entry was: it was removed. Whoever made it came before."""
        self.kept_at, self.is_repeat = "", True

    def left_nothing(self, error: TradewindError, *, elsewhere: bool = False) -> TradewindError:
        """Say so in `error`, which must be of this job alone, if it was a first attempt.

        A repeat knows only its own attempt. Of a business key it is not said: it has the same homes
        under another request_id. `elsewhere`: see TradewindError.
        """
        if not self.is_repeat and self.identity.may_spare:
            error.nothing_kept, error.elsewhere = True, elsewhere
        return error

    def falls_back(self) -> bool:
        """Take the spare home from now on, since home has certainly nothing of this attempt.

        False where that could make a second task: a repeat knows only its own attempt.
        """
        if self.is_repeat or self.kept_at or not self.identity.spare:
            return False
        self.kept_at = self.identity.spare
        return True

    def mark_here(self, task_id: str, region: str) -> LedgerMark | None:
        """Return its mark, if the entry lives in the task's own region and partition."""
        mark = self.identity.mark
        if mark is None or self.homes(region) != (region,):
            return None
        if not mark.business:  # its partition is that of its request_id, as is the task's
            return mark
        at_home = partition_of(mark.key, self.fleet.partitions) == birth_partition(task_id)
        return mark if at_home else None

    def reservation(self) -> LedgerMark | None:
        """Return its mark for an entry elsewhere. The window counts from the earliest start."""
        mark = self.identity.mark
        draft = self.draft
        if mark is None or not (draft.delay_ms or draft.not_before_ms):
            return mark
        window_ms = mark.window_ms + draft.delay_ms
        return mark._replace(window_ms=window_ms, not_before_ms=draft.not_before_ms)

    def task(
        self, task_id: str, region: str, *, epoch: int = 1, mark: LedgerMark | None = None
    ) -> NewTask:
        """Return the task to store in `region`; the store adds the delay to the mark's window."""
        draft, identity = self.draft, self.identity
        deduplicated = identity.deduplicated
        return NewTask(
            task_id=task_id,
            queue=draft.queue,
            name=draft.name,
            priority=draft.priority,
            packed=codec.pack(
                draft,
                fingerprint=identity.fingerprint if deduplicated else b"",
                fence=self.resolved.fence,
                traceparent=self.traceparent,
                birth_region=region if deduplicated else "",
                deduplicated=deduplicated,
            ),
            fence=self.resolved.fence,
            epoch=epoch,
            delay_ms=draft.delay_ms,
            not_before_ms=draft.not_before_ms,
            expires_ms=draft.expires_ms,
            max_crashes=self.fleet.queue(draft.queue).max_crashes,
            done_key=identity.done_key if deduplicated else b"",
            mark=mark,
        )
