"""Case C13: slots move to a fourth primary while 100 tasks a second are submitted."""

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cases.clustered import clustered, is_in_order, slots_of
from tests.cases.steady import Steady, all_have_run, ran_twice, steady, unknown, waits
from tests.flow.lab import Lab
from tests.harness.reshard import Moved, Pace, is_known, one_more_primary, resharder
from tradewind.ids import birth_partition
from tradewind.local.scratch import cluster_nodes

RATE = 100.0
MOST_REFUSED = 0.01  # of all calls, as the case has it
AGAIN_WITHIN_S = 5.0  # the same
_SUBMITTED = re.compile(
    r'^tradewind_tasks_submitted_total\{outcome="([^"]*)".*\} (\S+)$', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Move:
    """How much of the first primary moves, and how slowly."""

    partitions: int
    ours: int  # slots that hold partitions; the first so many
    slots: int  # in all
    pace: Pace
    quiet_s: float  # load before and after
    workers: int
    full: bool = False


SHORT = Move(16, 2, 12, Pace(keys=5, keys_s=0.1), quiet_s=0.5, workers=1)
FULL_PACE = Pace(keys=10, keys_s=0.1, slots=10, slot_s=0.05)
FULL = Move(64, 21, 5_000, FULL_PACE, quiet_s=10, workers=2, full=True)


@pytest.mark.cluster
@pytest.mark.parametrize(
    "move",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(FULL, id="full", marks=[pytest.mark.long, pytest.mark.timeout(600)]),
    ],
)
async def test_c13_slots_move_and_nothing_is_lost_doubled_or_left_waiting(
    tmp_path: Path, move: Move
) -> None:
    with (
        cluster_nodes(tmp_path / "cluster") as nodes,
        one_more_primary(tmp_path / "fourth", nodes) as fourth,
    ):
        everyone = [*nodes, fourth]
        await is_known(everyone)
        async with (
            clustered(
                tmp_path,
                [node.port for node in nodes],
                partitions=move.partitions,
                workers=move.workers,
            ) as region,
            resharder(everyone, nodes[0], fourth) as moving,
        ):
            slots = chosen(move, await moving.owned())
            async with steady(region, RATE) as load:
                await asyncio.sleep(move.quiet_s)
                began_at = time.monotonic()
                moved = await moving.move(slots, move.pace)
                ended_at = time.monotonic()
                await asyncio.sleep(move.quiet_s)
            lab = region.lab
            await all_have_run(lab, load)
            await is_in_order([node.port for node in everyone])

            print(f"\nFIGURES before: {load.figures(0, began_at)}")
            print(f"FIGURES during {ended_at - began_at:.0f} s: {load.figures(began_at, ended_at)}")
            print(f"FIGURES after: {load.figures(ended_at, time.monotonic())}")
            again_s, longest_s = starts(lab, load, move, moved)
            took = [f"{each.ended_at - each.began_at:.1f}" for each in moved if each.keys]
            print(
                f"FIGURES {len(load.calls)} submits, {len(load.failed)} refused; {len(moved)} "
                f"slots, ours within {' '.join(took)} s; longest wait for a start "
                f"{longest_s:.2f} s, on a slot that had moved {again_s:.2f} s"
            )
            print(f"FIGURES answers of the router: {answers((await region.pages()).decode())}")
            load.refusals_are_ours()
            assert ran_twice(lab) == {}
            assert len(unknown(lab, load)) <= len(load.failed)
            if move.full:
                assert len(load.failed) <= MOST_REFUSED * len(load.calls)
                assert again_s <= AGAIN_WITHIN_S
            else:
                assert load.failed == []


def answers(page: str) -> dict[str, int]:
    """How many submits the router has answered how; the SDK repeats what was refused."""
    found: dict[str, int] = {}
    for outcome, number in _SUBMITTED.findall(page):
        found[outcome] = found.get(outcome, 0) + int(float(number))
    return found


def chosen(move: Move, owned: Sequence[int]) -> list[int]:
    """The slots to move, in order: some of ours among those that hold nothing."""
    ours = [slot for slot in slots_of(move.partitions) if slot in owned][: move.ours]
    assert len(ours) == move.ours
    held = {*slots_of(move.partitions)}
    empty = [slot for slot in owned if slot not in held]
    many = move.slots - len(ours)
    spread = [empty[number * len(empty) // many] for number in range(many)]
    return sorted([*ours, *spread])


def starts(lab: Lab, load: Steady, move: Move, moved: Sequence[Moved]) -> tuple[float, float]:
    """Longest waits for a start: of what came to a slot that had moved, and of all."""
    waited, kept = waits(lab, load), load.kept
    slots = slots_of(move.partitions)
    moved_at: dict[int, Any] = {each.slot: each.ended_at for each in moved}
    again = [
        seconds
        for task_id, seconds in waited.items()
        if kept[task_id].began_at > moved_at.get(slots[birth_partition(task_id)], float("inf"))
    ]
    assert again, "nothing came to a slot that had moved"
    late = [sum(each > seconds for each in waited.values()) for seconds in (1, 2, 5)]
    print(f"FIGURES waited for a start: over 1 s {late[0]}, over 2 s {late[1]}, over 5 s {late[2]}")
    return max(again), max(waited.values())
