"""Where tasks go by one regions.yaml and by another.

Every region is healthy, idle and as far from the others as the file says.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from tradewind.admission.identity import homes, identify
from tradewind.clock import SystemClock
from tradewind.errors import NoRegionPermitted, TradewindError
from tradewind.fleet import Fleet
from tradewind.policy.decide import decide, refusal
from tradewind.policy.rules import matching, resolve
from tradewind.regions.cases import idle
from tradewind.statuses import code_of
from tradewind.v1.task_pb2 import TaskSpec
from tradewind.wire import admitted


@dataclass(frozen=True, slots=True)
class Route:
    """What a router would do with one task."""

    region: str  # empty: refused
    rule: str  # that matched; `default` if none did
    fence: tuple[str, ...] = ()
    permitted: frozenset[str] = frozenset()  # regions inside the fence
    refused: str = ""  # code of gRPC
    message: str = ""
    key: bytes = b""  # of the ledger entry, if repeats are recognised by idempotency key or payload
    homes: frozenset[str] = frozenset()  # regions that keep it


@dataclass(frozen=True, slots=True)
class Pair:
    """One task from one origin, by both files."""

    number: int  # of the task, from 1
    name: str
    origin: str
    before: Route
    after: Route

    @property
    def label(self) -> str:
        """Say which it is."""
        return f"task {self.number} ({self.name}) from {self.origin}"

    @property
    def opened(self) -> frozenset[str]:
        """Regions that the task was fenced off from, and is not any more."""
        one, other = self.before, self.after
        return other.permitted - one.permitted if one.fence else frozenset()

    @property
    def forgotten(self) -> bool:
        """Whether a repeat would run again: nobody who is asked now knew it before."""
        one, other = self.before, self.after
        if not one.key or other.refused:
            return False
        return one.key != other.key or one.homes.isdisjoint(other.homes)


def pairs(
    specs: Sequence[TaskSpec], old: Fleet, new: Fleet, origins: Sequence[str]
) -> Iterator[Pair]:
    """Route each task by both files, from its own origin or from each of `origins`."""
    now_ms = SystemClock().now_ms()
    for number, spec in enumerate(specs, 1):
        for origin in (spec.origin_region,) if spec.origin_region else origins:
            given = TaskSpec()
            given.CopyFrom(spec)
            given.origin_region = origin
            before, after = (routed(given, fleet, now_ms=now_ms) for fleet in (old, new))
            yield Pair(number, spec.name, origin, before, after)


def routed(spec: TaskSpec, fleet: Fleet, *, now_ms: int) -> Route:
    """Route one task, whose origin is known; what refuses it is in the route."""
    given = TaskSpec()
    given.CopyFrom(spec)  # admission fills defaults in
    try:
        draft, body = admitted(given, fleet, now_ms=now_ms)
    except TradewindError as error:
        return _refused(error, "")
    rule = matching(draft, fleet).name
    try:
        resolved = resolve(draft, fleet)
    except NoRegionPermitted as error:
        return _refused(error, rule)
    identity = identify(draft, body, resolved.fence, fleet)
    decision = decide(
        draft,
        idle(draft, fleet),
        fleet,
        draw=_draw(spec),
        # As a router has it: where the entry lives at the origin, being near is what decides.
        ledger_home="" if identity.home == draft.origin_region else identity.home,
        resolved=resolved,
        own_region=draft.origin_region,
    )
    permitted = frozenset(fleet.inside(resolved.fence))
    if not decision.region:
        why = _refused(refusal(decision, fleet), rule)
        return replace(why, fence=resolved.fence, permitted=permitted)
    mark = identity.mark if identity.deduplicated else None
    return Route(
        region=decision.region,
        rule=rule,
        fence=resolved.fence,
        permitted=permitted,
        key=b"" if mark is None else mark.key,
        homes=frozenset(homes(mark.key, resolved.fence, fleet) if mark else ()),
    )


def _refused(error: TradewindError, rule: str) -> Route:
    return Route("", rule, refused=code_of(error).name, message=str(error))


def _draw(spec: TaskSpec) -> float:
    """Give the same chance by both files: what is drawn moves only if the shares do."""
    digest = blake2b(spec.SerializeToString(deterministic=True), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
