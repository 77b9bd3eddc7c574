"""Whom a region believes about its own nodes."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from redis.exceptions import NoPermissionError

from tradewind.errors import StoreUnavailable
from tradewind.fleet import RedisTarget, Region
from tradewind.store import topology
from tradewind.store.link import Command, Reply
from tradewind.store.topology import Topology, topology_of

SEEDS = ("a:1", "b:1", "c:1")
WHOLE, CUT_OFF = b"cluster_state:ok\r\n", b"cluster_state:fail\r\n"


def slots(port: int, node_id: bytes = b"id") -> list[Any]:
    return [[0, 16_383, [b"n", port, node_id, []]]]


class Nodes:
    """What each node answers: replies, an error, or nothing."""

    def __init__(self, **answers: Any) -> None:
        self._answers, self.asked = answers, list[str]()

    def now(self, **answers: Any) -> None:
        """From now on they answer so."""
        self._answers |= answers

    async def __call__(self, address: str, _commands: Sequence[Command]) -> list[Reply]:
        self.asked.append(address)
        answer = self._answers[address[0]]
        if isinstance(answer, StoreUnavailable):
            raise answer
        if answer == "silence":
            await asyncio.Event().wait()
        return cast("list[Reply]", answer)


def learner(nodes: Nodes) -> Topology:
    learning = topology_of(Region("eu", RedisTarget("cluster", SEEDS)), nodes)
    assert learning is not None
    return learning


async def address(nodes: Nodes, known: Sequence[str] = ()) -> str:
    (place,) = await learner(nodes).primaries(known)
    return place.address


DEAD = StoreUnavailable("eu", "connection refused", sent=False)


async def test_any_seed_will_do() -> None:
    assert await address(Nodes(a=DEAD, b=[slots(7), WHOLE])) == "n:7"


async def test_a_silent_node_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "ASK_TIMEOUT_S", 1_000.0)
    assert await address(Nodes(a="silence", b="silence", c=[slots(7), WHOLE])) == "n:7"


async def test_a_node_that_lost_the_others_is_not_believed_if_another_answers() -> None:
    nodes = Nodes(a=[slots(1), CUT_OFF], b=[slots(7), WHOLE])
    assert await address(nodes) == "n:7"


async def test_it_is_believed_if_no_other_answers() -> None:
    assert await address(Nodes(a=[slots(1), CUT_OFF], b=DEAD, c=DEAD)) == "n:1"


async def test_a_map_with_nodes_of_another_region_is_taken_for_want_of_another() -> None:
    nodes = Nodes(a=[slots(1), WHOLE], b=[slots(7), WHOLE], c=DEAD)
    (place,) = await learner(nodes).primaries((), frozenset({"n:1"}))
    assert place.address == "n:7"
    (place,) = await learner(nodes).primaries((), frozenset({"n:1", "n:7"}))
    assert place.address == "n:1"


async def test_nodes_that_are_known_are_asked_before_the_seeds() -> None:
    nodes = Nodes(k=[slots(7), WHOLE])
    assert await address(nodes, ["k:1"]) == "n:7"
    assert nodes.asked == ["k:1"]


async def test_once_a_map_is_known_no_other_cluster_is_believed() -> None:
    """A seed was given to it, and answers alone while ours is silent."""
    nodes = Nodes(a=[slots(7), WHOLE], b=[slots(1, b"other"), WHOLE], c=DEAD)
    learning = learner(nodes)
    assert (await learning.primaries(()))[0].address == "n:7"
    nodes.now(a=DEAD)
    with pytest.raises(StoreUnavailable, match="only nodes of another Cluster answer"):
        await learning.primaries(())
    nodes.now(a=[slots(8), WHOLE])
    assert (await learning.primaries(()))[0].address == "n:8", "at another address, it is ours"


async def test_a_cluster_that_is_made_later_is_believed_once_it_is() -> None:
    nodes = Nodes(a=[[], CUT_OFF], b=[[], CUT_OFF], c=DEAD)
    learning = learner(nodes)
    assert await learning.primaries(()) == []
    nodes.now(a=[slots(7), WHOLE])
    assert (await learning.primaries(()))[0].address == "n:7"


async def test_a_map_that_proved_foreign_is_forgotten() -> None:
    nodes = Nodes(a=DEAD, b=[slots(1, b"other"), WHOLE], c=DEAD)
    learning = learner(nodes)
    assert (await learning.primaries(()))[0].address == "n:1"
    nodes.now(a=[slots(7), WHOLE])
    assert (await learning.primaries((), frozenset({"n:1"})))[0].address == "n:7"


async def test_a_login_that_may_not_ask_for_its_state_is_no_obstacle() -> None:
    assert await address(Nodes(a=[slots(7), PermissionError()])) == "n:7"


async def test_a_server_that_is_no_cluster_is_named_as_such() -> None:
    no = Exception("This instance has cluster support disabled")
    with pytest.raises(StoreUnavailable, match="it is no Cluster: name it as redis://HOST:PORT"):
        await learner(Nodes(a=[no, no], b=[no, no], c=[no, no])).primaries(())


async def test_a_login_that_may_not_ask_for_the_map_is_told_so() -> None:
    no = NoPermissionError("User u has no permissions to run the 'cluster|slots' command")
    with pytest.raises(StoreUnavailable, match=r"allow it \+cluster\|slots"):
        await learner(Nodes(a=[no, WHOLE], b=[no, WHOLE], c=[no, WHOLE])).primaries(())


async def test_if_nobody_answers_the_last_cause_is_told() -> None:
    with pytest.raises(StoreUnavailable, match="connection refused"):
        await learner(Nodes(a=DEAD, b=DEAD, c=DEAD)).primaries(())
