"""What the tests of the ledger build their submits from."""

import secrets
from typing import Any

from tests.rpc.running import Running, spec
from tradewind import ids, wire
from tradewind.admission import admit, identity
from tradewind.admission.identity import Identity
from tradewind.errors import (
    StoreUnavailable,
)
from tradewind.fleet import Fleet

GONE = StoreUnavailable("x", "connection refused", sent=False)
LOST = StoreUnavailable("x", "connection lost", sent=True)
A_WHILE = 99  # faults in a row: for as long as a test wants them


def identity_of(fleet: Fleet, **fields: Any) -> Identity:
    sent = spec(**fields)
    body = admit.check(sent, fleet, now_ms=0).body
    draft = wire.draft(sent, delay_ms=0, timeout_ms=0)
    return identity.identify(draft, body, (), fleet)


def spared(fleet: Fleet, home: str, spare: str) -> dict[str, Any]:
    """Fields of a submit that has its ledger entry at `home`, else at `spare`."""
    for number in range(100):
        fields: dict[str, Any] = {"request_id": f"r{number}", "origin_region": home}
        who = identity_of(fleet, **fields)
        if (who.home, who.spare) == (home, spare):
            return fields
    raise AssertionError


async def elsewhere(serving: Running) -> dict[str, Any]:
    """Fields of a submit that goes to eu-west while its ledger entry lives in us-east."""
    affinity = await serving.affinity_to("eu-west")
    key = await serving.key_at("us-east", affinity_key=affinity)
    return {"affinity_key": affinity, "idempotency_key": key}


def names(serving: Running, region: str, *, but: str = "enqueue") -> list[str]:
    return [name for name, _ in serving.stores[region].calls if name != but]


def mint(fleet: Fleet, fields: dict[str, Any]) -> str:
    """Return a new id in the partition of the submit, born in eu-west."""
    who = identity_of(fleet, **fields)
    draft = wire.draft(spec(**fields), delay_ms=0, timeout_ms=0)
    place = identity.partition(draft, who, fleet.partitions, 0)
    born = ids.region_code("eu-west")
    return ids.mint(1_767_225_600_000, born, place, secrets.randbits(48))


async def reserve_and_vanish(serving: Running, fleet: Fleet, fields: dict[str, Any]) -> str:
    """Do what a router does that is killed between its reservation and its enqueue."""
    who = identity_of(fleet, **fields)
    assert who.mark is not None
    task_id = mint(fleet, fields)
    hit = await serving.stores[who.home].real.reserve(who.mark, task_id, "eu-west", 1)
    assert hit is None
    return task_id
