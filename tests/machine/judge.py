"""Holds every answer of the scripts against the invariants, knowing nothing of what was meant.

It stands between the rules and the stores, looks at the regions' raw keys before and after each
call, and so speaks first: the model compares the answer only afterwards.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.machine.clock import Clock
from tests.machine.dump import Dump, Fields, dump
from tradewind.state import Mark, State
from tradewind.task import Claim, LedgerHit, LedgerMark, Pointer, Stored, TooLateToCancel

WAITING = {State.PENDING, State.SCHEDULED, State.FAILED}
FINAL = {State.COMPLETED, State.CANCELLED, State.EXPIRED}
INDEX_OF = {
    State.PROCESSING: ("leases",),
    State.SCHEDULED: ("due:0", "due:1", "due:2"),
    State.FAILED: ("due:0", "due:1", "due:2"),
    State.DEAD_LETTER: ("dead",),
    State.MOVING: ("moving",),
}
ENDS = (State.CANCELLED, State.EXPIRED)
# States in which a settlement that is repeated finds the task.
LEADS_TO: dict[str, tuple[State, ...]] = {
    "finish": (State.COMPLETED,),
    "retry": (State.FAILED, *ENDS),
    "bury": (State.DEAD_LETTER, *ENDS),
    "release": (State.PENDING, *ENDS),
    "crashed": (State.PENDING, State.DEAD_LETTER, *ENDS),
    "confirm_cancel": (State.CANCELLED,),
    "progress": (),
    "renew": (),
}
_LOST: Callable[[Any], bool] = lambda answers: answers[0].lost  # noqa: E731
_FALSE: Callable[[Any], bool] = lambda answer: answer is False  # noqa: E731
BRIEF = ("courier", "wake:", "others:", "suspects:")  # keys that live for a minute at most
# What each call answers when it refuses.
REFUSED: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(LEADS_TO, _LOST),
    **dict.fromkeys(("confirm", "unreserve", "forget", "redrive", "purge"), _FALSE),
    **dict.fromkeys(("ack_export", "settle_import"), _FALSE),
    **dict.fromkeys(("begin_export", "abort_export"), lambda answer: answer is None),
    "enqueue": lambda answer: (
        not getattr(answer[0][0], "created", False) and not getattr(answer[0][0], "adopted", False)
    ),
    "refuse": lambda answer: answer is not None,
    "reserve": lambda answer: answer is not None and not answer.adopted,
    "cancel": lambda answer: isinstance(answer, Pointer | TooLateToCancel | None),
    "reconcile": lambda answer: not answer.repairs,
    "recount": lambda answer: not answer,
    "import_task": lambda answer: answer != "imported",
    "refuse_import": lambda answer: answer == "imported",
}


class BrokenInvariant(AssertionError):
    """Invariant `number` of docs/architecture.md does not hold."""

    def __init__(self, number: int, what: str) -> None:
        """`what` was seen."""
        self.number = number
        super().__init__(f"invariant {number}: {what}")


class Judge:
    """What has been promised so far, and whether it is kept."""

    def __init__(self, raw: Mapping[str, Any], clock: Clock) -> None:
        """`raw` by region."""
        self._raw, self._clock = raw, clock
        self.seen = {region: dump(client) for region, client in raw.items()}
        self._accepted: set[str] = set()
        self._may_go: set[str] = set()  # ended, or removed by an operator: its record may go
        self._completed: set[str] = set()
        self._tokens: dict[str, int] = {}

    def look(self) -> None:
        """Take the present state for granted: time has passed, or a test has written by hand."""
        self._note_ends()
        self.seen = {region: dump(client) for region, client in self._raw.items()}

    def judge(self, region: str, call: str, args: Sequence[Any], answer: Any) -> None:
        """After a call. Raises BrokenInvariant."""
        self._note_ends()
        before = self.seen[region]
        after = self.seen[region] = dump(self._raw[region])
        refused = REFUSED.get(call)
        if refused is not None and refused(answer):
            self._nothing_left(call, before, after)
        self._one_holder(call, args, answer, before)
        self._one_result(before.records, after.records)
        if call == "enqueue" and isinstance(answer[0][0], Stored):
            self._accepted.add(args[0][0].task_id)
        if call == "purge" and answer:
            self._may_go.add(args[0])
            # Who adopts its submit much later, when all that is left of it has gone, makes it anew.
            self._tokens.pop(args[0], None)
        self._kept_by_one_owner()
        self._marks(args, answer, before, after)

    def _note_ends(self) -> None:
        """Whose record may go: what has ended, and what is dead for longer than its retention."""
        for seen in self.seen.values():
            for task_id, fields in seen.records.items():
                until_ms = seen.score("dead_until", task_id)
                if fields["s"] in FINAL or (until_ms or math.inf) <= self._clock.now_ms:
                    self._may_go.add(task_id)
                elif fields["s"] not in {State.MOVING, *Mark}:
                    self._may_go.discard(task_id)

    def _nothing_left(self, call: str, before: Dump, after: Dump) -> None:
        names = {*before.keys, *after.keys}
        changed = {key for key in names if before.keys.get(key) != after.keys.get(key)}
        # Seconds of real time may have passed: on a busy machine short lives end by themselves.
        changed -= {key for key in changed if key.startswith(BRIEF) and key not in after.keys}
        if changed:
            raise BrokenInvariant(6, f"{call} was refused and changed {sorted(changed)}")

    def _one_holder(self, call: str, args: Sequence[Any], answer: Any, before: Dump) -> None:
        if call in LEADS_TO:
            for item, said in zip(args[0], answer, strict=True):
                self._held(call, item if isinstance(item, Claim) else item.claim, said, before)
        elif call == "claim":
            for claim in answer.claims:
                self._free(claim, before)
        elif call == "reap":
            for reaped in answer:
                if (before.score("leases", reaped.task_id) or 0) > self._clock.now_ms:
                    raise BrokenInvariant(3, f"{reaped} was taken from one whose lease lives")

    def _held(self, call: str, claim: Claim, said: Any, before: Dump) -> None:
        record = before.records.get(claim.task_id, {})
        theirs = (record.get("tk"), record.get("ep"))
        mine = (str(claim.token), str(claim.epoch))
        state = record.get("s")
        if not said.lost and (theirs != mine or state not in {State.PROCESSING, *LEADS_TO[call]}):
            raise BrokenInvariant(3, f"{call} by {mine} counted: {state} under {theirs}")

    def _free(self, claim: Claim, before: Dump) -> None:
        state = before.records[claim.task_id]["s"]
        if state not in WAITING:
            raise BrokenInvariant(3, f"{claim.task_id} was claimed while {state}")
        if claim.token <= self._tokens.get(claim.task_id, 0):
            raise BrokenInvariant(3, f"{claim.task_id}: token {claim.token} after a higher one")
        self._tokens[claim.task_id] = claim.token

    def _one_result(self, before: Mapping[str, Fields], after: Mapping[str, Fields]) -> None:
        for task_id, fields in after.items():
            was = before.get(task_id, {})
            if was.get("s") in FINAL and (was["s"], was.get("rs")) != (
                *(fields["s"], fields.get("rs")),
            ):
                raise BrokenInvariant(3, f"{task_id} was {was['st']} and is {fields['st']}")
            if fields["s"] == State.COMPLETED != was.get("s"):
                if task_id in self._completed:
                    raise BrokenInvariant(3, f"{task_id} has a second result")
                self._completed.add(task_id)

    def _kept_by_one_owner(self) -> None:
        for task_id in self._accepted:
            places = [
                (seen, fields)
                for seen in self.seen.values()
                if (fields := seen.records.get(task_id)) and fields["s"] not in set(Mark)
            ]
            if not places and task_id not in self._may_go:
                raise BrokenInvariant(1, f"{task_id} was accepted and is nowhere")
            if sum(fields["s"] != State.MOVING for _, fields in places) > 1:
                raise BrokenInvariant(2, f"{task_id} is in both regions")
            for seen, fields in places:
                if not is_found(seen, task_id, fields):
                    raise BrokenInvariant(
                        1, f"nobody will find {task_id}: {fields}, {seen.tickets}"
                    )

    def _marks(self, args: Sequence[Any], answer: Any, before: Dump, after: Dump) -> None:
        for key, value in after.keys.items():
            if key.startswith("done:") and value not in self._completed:
                raise BrokenInvariant(5, f"{value} is marked as done and was not completed")
            if not key.startswith("led:"):
                continue
            if "cf" in value and value["id"] not in self._accepted:
                raise BrokenInvariant(5, f"{value['id']} has a mark and was never stored")
            if key in before.keys and before.keys[key]["id"] != value["id"]:
                raise BrokenInvariant(5, f"{key} stands for another task than before")
        outcomes: Any = answer
        hit = outcomes[0][0] if isinstance(answer, tuple) else answer
        if isinstance(hit, LedgerHit):
            mark = args[0] if isinstance(args[0], LedgerMark) else args[0][0].mark
            first = before.keys.get(f"led:{mark.key.hex()}", {}).get("id")
            if hit.task_id != first:
                raise BrokenInvariant(5, f"a duplicate got {hit.task_id}, not {first}")


def is_found(seen: Dump, task_id: str, fields: Fields) -> bool:
    """Whether the index that its state names leads to the task."""
    match fields["s"]:
        case State.PENDING:
            return f"{task_id}:{fields['rv']}" in seen.tickets
        case state if state in FINAL:
            return True
        case state:
            return any(seen.score(index, task_id) is not None for index in INDEX_OF[State(state)])


class Watched:
    """A store whose calls are judged as soon as they have answered."""

    def __init__(self, judge: Judge, region: str, store: Any) -> None:
        """Stands in for `store`."""
        self._judge, self._region, self._store = judge, region, store

    def __getattr__(self, call: str) -> Any:
        """The store's method, and the judge behind it."""
        method = getattr(self._store, call)

        async def judged(*args: Any, **kwargs: Any) -> Any:
            answer = await method(*args, **kwargs)
            self._judge.judge(self._region, call, args, answer)
            return answer

        return judged
