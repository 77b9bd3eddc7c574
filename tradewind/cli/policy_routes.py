"""Where tasks go by one regions.yaml and by another.

Every region is healthy, idle and as far from the others as the file says. What tasks that are alike
share is worked out once: a file of them has few shapes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, NamedTuple

from tradewind.admission.identity import Identity, homes, identify
from tradewind.clock import SystemClock
from tradewind.errors import NoRegionPermitted, TradewindError
from tradewind.fingerprint import Body
from tradewind.fleet import Fleet
from tradewind.policy.decide import Weighed, refusal, weigh
from tradewind.policy.rules import Resolved, matching, resolve
from tradewind.regions.cases import idle
from tradewind.statuses import code_of
from tradewind.task import Draft
from tradewind.v1.task_pb2 import TaskSpec
from tradewind.view import RegionView
from tradewind.wire import admitted

_MOST_SHAPES: Final = 4_096  # remembered at a time: a key of its own makes each task a shape


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
    before, after = Router(old), Router(new)
    for number, spec in enumerate(specs, 1):
        known = [each.know(spec, now_ms=now_ms) for each in (before, after)]
        for origin in (spec.origin_region,) if spec.origin_region else origins:
            one, other = (
                by.route(task, origin, spec)
                for by, task in zip((before, after), known, strict=True)
            )
            yield Pair(number, spec.name, origin, one, other)


class Known(NamedTuple):
    """A task by one file, wherever it comes from."""

    draft: Draft
    body: Body
    resolved: Resolved
    identity: Identity
    homes: frozenset[str]  # of its idempotency key or payload


class Router:
    """Routes tasks by one file, and remembers what it has worked out."""

    def __init__(self, fleet: Fleet) -> None:
        """Nothing is known yet."""
        self._fleet = fleet
        self._views: dict[tuple[str, str], tuple[RegionView, ...]] = {}
        self._weighed: dict[tuple[object, ...], Weighed] = {}
        self._permitted: dict[tuple[str, ...], frozenset[str]] = {}

    def know(self, spec: TaskSpec, *, now_ms: int) -> Known | Route:
        """Return what does not depend on the origin: the whole route of a task that is refused."""
        given = TaskSpec()
        given.CopyFrom(spec)  # admission fills defaults in
        try:
            draft, body = admitted(given, self._fleet, now_ms=now_ms)
        except TradewindError as error:
            return _refused(error, "")
        try:
            resolved = resolve(draft, self._fleet)
        except NoRegionPermitted as error:
            return _refused(error, matching(draft, self._fleet).name)
        identity = identify(draft, body, resolved.fence, self._fleet)
        kept_at: tuple[str, ...] = ()
        if identity.mark is not None and identity.deduplicated:
            kept_at = homes(identity.mark.key, resolved.fence, self._fleet)
        return Known(draft, body, resolved, identity, frozenset(kept_at))

    def route(self, task: Known | Route, origin: str, spec: TaskSpec) -> Route:
        """Route a task that comes from `origin`. Its `spec` is what chance goes by."""
        if isinstance(task, Route):
            return task
        draft, body, resolved, identity, kept_at = task
        fence = resolved.fence
        if identity.mark is not None and not identity.deduplicated:
            # Where the entry of a request_id lives is a matter of where the caller is.
            draft = draft._replace(origin_region=origin)
            identity = identify(draft, body, fence, self._fleet)
        # As a router has it: where the entry lives at the origin, being near is what decides.
        weighed = self._weigh(draft, resolved, origin, identity.home)
        permitted = self._permitted.get(fence)
        if permitted is None:
            permitted = self._permitted[fence] = frozenset(self._fleet.inside(fence))
        region = weighed.choice.drawn(_draw(spec, origin) if weighed.is_drawn else 0.0)
        if not region:
            why = _refused(refusal(weighed.decision(0.0), self._fleet), resolved.rule_name)
            return replace(why, fence=fence, permitted=permitted)
        mark = identity.mark if identity.deduplicated else None
        return Route(
            region=region,
            rule=resolved.rule_name,
            fence=fence,
            permitted=permitted,
            key=b"" if mark is None else mark.key,
            homes=kept_at,
        )

    def _weigh(self, draft: Draft, resolved: Resolved, origin: str, ledger_home: str) -> Weighed:
        near = "" if ledger_home == origin else ledger_home
        shape = (draft.queue, draft.name, origin, near, resolved)
        weighed = self._weighed.get(shape)
        if weighed is None:
            if len(self._weighed) >= _MOST_SHAPES:
                self._weighed.clear()
                self._views.clear()
            here = draft._replace(origin_region=origin)
            views = self._views.get((draft.queue, origin))
            if views is None:
                views = self._views[draft.queue, origin] = idle(here, self._fleet)
            weighed = self._weighed[shape] = weigh(
                here,
                views,
                self._fleet,
                resolved=resolved,
                ledger_home=near,
                own_region=origin,
            )
        return weighed


def _refused(error: TradewindError, rule: str) -> Route:
    return Route("", rule, refused=code_of(error).name, message=str(error))


def _draw(spec: TaskSpec, origin: str) -> float:
    """Give the same chance by both files: what is drawn moves only if the shares do."""
    task = spec.SerializeToString(deterministic=True)
    digest = blake2b(origin.encode() + b"\0" + task, digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
