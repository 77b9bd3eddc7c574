"""Two real regions against a plain model: everything that may be done to a task, in any order.

Calls are repeated, replies lost, claims shown long after they were superseded.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    invariant,
    run_state_machine_as_test,
)

from tests.machine.couriers import Couriers
from tests.machine.model import REGIONS, RUNNABLE, Place
from tests.redis_keys import connected, leaked_keys, wrong_counts
from tests.scripts.world import keys_at
from tradewind.local.scratch import RedisProcess
from tradewind.state import Mark, State


class TwoRegions(Couriers):
    """What must hold after every step."""

    @invariant()
    def the_regions_hold_what_the_model_holds(self) -> None:
        for region, raw in self.raw.items():
            prefix = keys_at().task("")
            found = {
                key.removeprefix(prefix): raw.hmget(key, "st", "ep", "tk", "mt")
                for key in raw.scan_iter(match=f"{prefix}*", count=1000)
            }
            expected = {
                task_id: place
                for (where, task_id), place in self.model.places.items()
                if where == region
            }
            assert found.keys() == expected.keys()
            for task_id, (state, epoch, token, target) in found.items():
                place = expected[task_id]
                assert state == (place.state or Mark.FORWARDED)
                assert (int(epoch), target or "") == (place.epoch, place.target)
                assert place.state is None or int(token or 0) == place.token

    @invariant()
    def every_accepted_task_is_somewhere_and_runnable_in_one_region_at_most(self) -> None:
        for task_id in self.model.birth:
            places = [self.model.at(region, task_id) for region in REGIONS]
            live = [place for place in places if place is not None and place.state is not None]
            assert live or task_id in self.model.purged
            assert sum(place.state in RUNNABLE for place in live) <= 1
            if len(live) > 1:  # the same move, seen from both ends
                assert sum(place.state is State.MOVING for place in live) >= 1

    @invariant()
    def a_task_has_one_result_at_most(self) -> None:
        assert all(count == 1 for count in self.model.results.values())

    @invariant()
    def counts_are_exact_and_no_key_is_left_behind(self) -> None:
        for server in self.servers[:2]:
            assert wrong_counts(server.port) == {}
            # A hint is out for what only holds stale tickets: whoever takes it drops them.
            stale = {keys_at().ready("mail", 1)} if self._is_hinted(server) else set[str]()
            assert set(leaked_keys(server.port)) <= stale

    def _is_hinted(self, server: RedisProcess) -> bool:
        return bool(connected(server.port).exists(keys_at().wake("mail")))

    @invariant()
    def every_index_holds_what_its_states_say_and_nothing_else(self) -> None:
        keys = keys_at()
        for region, raw in self.raw.items():
            held = {
                task_id: place
                for (where, task_id), place in self.model.places.items()
                if where == region
            }

            def ids(*states: State, held: dict[str, Place] = held) -> set[str]:
                return {task_id for task_id, place in held.items() if place.state in states}

            dead = ids(State.DEAD_LETTER)
            expected = {
                keys.leases: ids(State.PROCESSING),
                keys.due: ids(State.FAILED),
                keys.dead: dead,
                keys.dead_until: dead,
                keys.outbox: {task_id for task_id in dead if not held[task_id].settled},
                keys.moving: ids(State.MOVING),
                keys.expiry: {
                    task_id for task_id in ids(State.PENDING, State.FAILED) if held[task_id].expires
                },
            }
            for key, members in expected.items():
                assert set(raw.zrange(key, 0, -1)) == members


@pytest.mark.timeout(600)  # a failure is shrunk before it is shown
def test_two_regions_behave_as_the_model_does(redis_servers: list[RedisProcess]) -> None:
    TwoRegions.servers = redis_servers
    run_state_machine_as_test(
        TwoRegions,
        settings=settings(
            max_examples=80,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=(HealthCheck.too_slow,),
        ),
    )
