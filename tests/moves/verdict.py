"""What must be true once nobody has anything left to do."""

from collections.abc import Iterator, Mapping, Sequence

from tests.machine.dump import Dump, Fields
from tests.machine.judge import is_found
from tests.machine.tidy import left_behind, wrong_counts
from tests.moves.matrix import LONG, Case
from tests.moves.play import Play
from tests.moves.wire import OUTSIDE
from tests.moves.world import FAR, HERE, THERE
from tests.scripts.world import PLACE
from tradewind import codec
from tradewind.errors import UnknownTask
from tradewind.state import Mark, State
from tradewind.task import Record

WAITING = {State.PENDING, State.SCHEDULED, State.FAILED}
FINAL = {State.COMPLETED, State.CANCELLED, State.EXPIRED}
_A_DAY_MS = 86_400_000
_STATES = {number: state for state, number in codec.STATES.items()}


async def wrongs(play: Play) -> list[str]:
    """All that is wrong."""
    seen = play.world.look()
    found = [line for line in play.world.told if OUTSIDE in line]
    found += [*_indices(seen), *await _repairs(play)]
    copies = _copies(play, seen)
    if len(copies) > 1:
        found.append(f"copies in {sorted(copies)}")
    for region, fields in copies.items():
        if fields["s"] == State.MOVING:
            found.append(f"still MOVING in {region}")
        if not is_found(seen[region], play.submitted.task_id, fields):
            found.append(f"nobody will find it in {region}")
    record = await _as_found(play, set(copies))
    if isinstance(record, str):
        found.append(record)
    elif record is not None:
        found += _history(play, record)
        found += _place(play, record)
    found += await _ledger(play)
    return found + await _runs(play, record if isinstance(record, Record) else None)


def _copies(play: Play, seen: Mapping[str, Dump]) -> dict[str, Fields]:
    task_id = play.submitted.task_id
    return {
        name: fields
        for name, one in seen.items()
        if (fields := one.records.get(task_id)) and fields["s"] not in set(Mark)
    }


def _indices(seen: Mapping[str, Dump]) -> Iterator[str]:
    for region, one in seen.items():
        if wrong := wrong_counts(one):
            yield f"counts of {region}: {wrong}"
        if left := left_behind(one):
            yield f"left behind in {region}: {sorted(left)}"
        if one.keys.get("imports"):
            yield f"{region} waits for ever for a word of {one.keys['imports']}"
        if kept := [key for key in one.lasting if key.startswith("imp:")]:
            yield f"{region} remembers for ever: {kept}"
        if moving := one.keys.get("moving"):
            yield f"{region} lists as moving: {moving}"


async def _repairs(play: Play) -> list[str]:
    found: list[str] = []
    for name, store in play.world.plain.items():
        swept = await store.reconcile(PLACE, [play.submitted.task_id])
        if swept.repairs:
            found.append(f"{name} repairs {swept.repairs}")
        if await store.recount(PLACE, ["mail"]):
            found.append(f"{name} recounts")
    return found


async def _as_found(play: Play, copies: set[str]) -> Record | str | None:
    """As any router finds it: the record, or None if it has ended and is forgotten."""
    try:
        record = await play.intruders.lookup.find(play.submitted.task_id)
    except UnknownTask:
        record = None
    if record is None:
        who = play.intruders
        is_over = play.runs or who.was_cancelled or who.was_purged or who.has_expired
        return None if is_over or _may_have_expired(play.case) else "lost"
    if play.intruders.was_purged:
        return f"purged, and it is {record.state} in {record.region}"
    if {record.region} != copies:
        return f"routers find it in {record.region}, it is in {sorted(copies)}"
    return record


def _may_have_expired(case: Case) -> bool:
    return case.intruder == "expiry" and LONG in {case.fault.lasts, case.second.lasts}


def _history(play: Play, record: Record) -> Iterator[str]:
    matter = play.case.matter
    stays = codec.hops(record.hops)
    told = [(s.region, _STATES[s.state], s.attempts, s.reason) for s in stays]
    if play.came_back:
        yield from _there_and_back(play, record, [(stay.region, stay.reason) for stay in stays])
        return
    expected = [(FAR, State.DEAD_LETTER, 1, "exhausted")] if matter.guest else []
    if record.region != HERE:
        expected.append((HERE, *_stay(play)))
    if told != expected:
        yield f"history {told}, not {expected}"
    since = play.intruders.redriven_after or 0
    revived = [stay for stay in told[since:] if stay[3] != "evacuation"]
    hops = sum(stay[1] is State.DEAD_LETTER for stay in revived)
    if record.state not in FINAL and record.hop_count != hops:
        yield f"{record.hop_count} moves after a death, not {hops}"


def _there_and_back(play: Play, record: Record, told: Sequence[tuple[str, str]]) -> Iterator[str]:
    expected = [(FAR, "exhausted")] if play.case.matter.guest else []
    expected += [(HERE, _stay(play)[2]), (play.came_back, "evacuation")]
    expected += [(HERE, "evacuation")] if record.region != HERE else []
    if told != expected:
        yield f"history {told}, not {expected}"


def _stay(play: Play) -> tuple[State, int, str]:
    """How its stay at the source ended."""
    matter = play.case.matter
    died = "exhausted" if matter.reason == "evacuation" else matter.reason
    if play.case.rests:
        died = "evacuation"  # it left as what it is
    if play.intruders.redriven_after == int(matter.guest):
        # Nobody serves the queue there, so what waits again is rescued.
        return State.PENDING, 0, matter.reason if matter.reason == "evacuation" else "unserved"
    if matter.former is State.DEAD_LETTER:
        return State.DEAD_LETTER, 1, died
    return matter.former, int(matter.former is State.FAILED), matter.reason


def _place(play: Play, record: Record) -> Iterator[str]:
    """Whatever nobody came between has left in the end."""
    matter, route = play.case.matter, play.case.route
    if play.case.intruder in {"cancel", "redrive", "purge", "expiry"} or play.runs:
        return
    if play.came_back:
        return
    if route == "left":
        if record.region != HERE or not record.settled:
            yield f"it is not settled where it died, but {record.state} in {record.region}"
        return
    goals = {FAR} if route == "elsewhere" else {THERE}
    if route == "elsewhere" and play.case.fault.lasts + play.case.second.lasts:
        goals.add(THERE)  # it has room again once somebody wakes up
    if play.case.rests:
        goals.add(FAR)
    if play.has_closed:
        goals |= {THERE} if route == "elsewhere" else {HERE}
    if FAR in goals and matter.guest and matter.former is State.DEAD_LETTER:
        goals = {*goals, HERE} - {FAR}  # it has been there
    if record.region not in goals:
        yield f"it is {record.state} in {record.region} and not in {goals}: {record.failover}"


async def _ledger(play: Play) -> list[str]:
    if play.intruders.was_cancelled or play.intruders.was_purged:
        return []  # its key is free again
    try:
        await play.intruders.submit_again("whoever submits it again")
    except AssertionError as error:
        return [str(error)]
    return []


async def _runs(play: Play, record: Record | None) -> list[str]:
    """It runs once, whoever could claim it; what has ended does not run."""
    runs, promises = play.runs, play.intruders
    is_gone = promises.was_cancelled or promises.was_purged
    ended = is_gone or (record is not None and record.state in FINAL)
    wanted = 1
    if record is None or ended:
        wanted = runs
    elif record.state is State.DEAD_LETTER:
        wanted = 0
    elif play.case.intruder == "expiry":
        wanted = runs
    await play.world.advance(2_000_000 if play.case.intruder != "expiry" else _A_DAY_MS)
    for _ in range(2):
        runs += await play.world.run_all()
    found = [f"it ran {runs} times, not {wanted}"] if runs != wanted else []
    if is_gone and runs:
        found.append(f"cancelled or purged, and it ran {runs} times")
    return found
