"""Cases that a regions.yaml is tested by: given regions and a task, where it must go.

    version: 1
    origin: eu-west
    cases:
      - name: an outage moves nothing across the fence
        regions: {eu-west: {health: down}}
        task: {name: mail.send, labels: {data-class: pii-eu}}
        expect: {refused: UNAVAILABLE}

A region that a case does not speak of is healthy and idle, at the distance that `rtt` of the
regions.yaml gives. The file is read as strictly as a regions.yaml is.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from tradewind.fleet import Fleet
from tradewind.limits import DAY_MS
from tradewind.policy.defaults import HOME_RTT_MS, UNSEEN_RTT_MS
from tradewind.regions.kinds import Factor, Names, Percent, Section
from tradewind.regions.reader import MisfitError, TreePath, read, read_text
from tradewind.regions.refusals import misfits
from tradewind.regions.units import Duration, did_you_mean
from tradewind.task import Draft
from tradewind.view import RegionView

Refusal = Literal["UNAVAILABLE", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"]

_LONG_MS = 365.0 * DAY_MS  # a region without slots has been so for long, if nothing else is said
_SLOTS, _SERVICE_MS = 10, 1_000.0  # of a region that nothing is said of
_POINT = 0.01
_SHARE = re.compile(r"(>=|<=|>|<)? ?([0-9]{1,3}(?:\.[0-9]{1,3})?)%")

_LOAD = frozenset({"depth", "free", "rate", "service"})  # what `wait` stands for
_EXPECTATIONS = ("region", "any_of", "rule", "excluded", "share", "refused")
_EXCLUSIVE = (
    ("region", "any_of"),
    ("region", "refused"),
    ("any_of", "refused"),
    ("share", "refused"),
)

_Health = Literal["HEALTHY", "DEGRADED", "DOWN", "RECOVERING", "UNKNOWN"]
_State = Literal["ACTIVE", "CORDONED", "DRAINING"]
_HEALTH: Mapping[str, _Health] = {
    "healthy": "HEALTHY",
    "degraded": "DEGRADED",
    "down": "DOWN",
    "kept-out": "DOWN",  # and `kept_out`
    "half-open": "DOWN",  # and `trial`
    "recovering": "RECOVERING",
    "unknown": "UNKNOWN",
}
_STATE: Mapping[str, _State] = {
    "active": "ACTIVE",
    "cordoned": "CORDONED",
    "draining": "DRAINING",
}

_Span = Annotated[float, Duration("0ms", "365d", whole=False)]
_Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
_Text = Annotated[str, Field(min_length=1)]


class StateSection(Section):
    """How a region is; what is not given is as in a healthy and idle one."""

    health: Literal[
        "healthy", "degraded", "down", "kept-out", "half-open", "recovering", "unknown"
    ] = "healthy"
    state: Literal["active", "cordoned", "draining"] = "active"
    rtt: _Span | None = None
    wait: _Span | None = None  # stands for depth, free, rate and service that come to it
    depth: _Count = 0
    slots: _Count = _SLOTS
    free: _Count | None = None
    rate: Factor = 0.0
    service: _Span = _SERVICE_MS
    ok: Percent = 1.0
    ramp: Percent = 1.0
    live: Percent = 1.0
    age: _Span = 0.0
    full: bool = False
    evicts: bool = False
    lacks: list[Literal["fsync", "replica"]] = Field(
        default_factory=list[Literal["fsync", "replica"]]
    )
    served: dict[str, list[_Text]] | None = None
    unserved_for: _Span | None = None


class TaskSection(Section):
    """What is submitted, as far as routing looks at it."""

    name: _Text
    queue: _Text = "default"
    tenant: str = ""
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    key: str = ""
    residency: Names = Field(default_factory=list[str])
    pin: str = ""
    origin: str = ""


class ExpectSection(Section):
    """What must hold of the decision; everything that is given must."""

    region: str = ""
    any_of: Names = Field(default_factory=list[str])
    rule: _Text = ""
    excluded: dict[str, _Text] = Field(default_factory=dict[str, str])
    share: dict[str, str] = Field(default_factory=dict[str, str])
    refused: Refusal | None = None


class CaseSection(Section):
    """One case."""

    name: _Text
    regions: dict[str, StateSection] = Field(default_factory=dict[str, StateSection])
    task: TaskSection
    expect: ExpectSection


class CasesFile(Section):
    """The whole file. `regions` and `origin` hold for every case that says nothing else."""

    version: int
    origin: str = ""
    regions: dict[str, StateSection] = Field(default_factory=dict[str, StateSection])
    cases: Annotated[list[CaseSection], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Bound:
    """A share of all tasks: `>= 70%` and the like, or a plain one, met to a percentage point."""

    text: str  # as the file spells it
    sign: str
    share: float

    def holds(self, share: float) -> bool:
        """Whether `share`, 0 to 1, is within it."""
        match self.sign:
            case ">=":
                return share >= self.share
            case "<=":
                return share <= self.share
            case ">":
                return share > self.share
            case "<":
                return share < self.share
            case _:
                return abs(share - self.share) <= _POINT


@dataclass(frozen=True, slots=True)
class Expected:
    """What a case wants; what is empty it does not care about."""

    any_of: tuple[str, ...]
    rule: str
    excluded: Mapping[str, str]
    share: Mapping[str, Bound]
    refused: str


@dataclass(frozen=True, slots=True)
class Case:
    """One case, as a router in `origin` would see it."""

    name: str
    line: int
    origin: str
    draft: Draft
    views: tuple[RegionView, ...]
    expected: Expected


def load(path: str | Path, fleet: Fleet) -> tuple[Case, ...]:
    """Read the cases of the file at `path`, or of a pipe, for `fleet`. Raises ConfigError."""
    return loads(read_text(Path(path), may_wait=True), fleet, str(path))


def loads(text: str, fleet: Fleet, name: str = "cases.yaml") -> tuple[Case, ...]:
    """Read the text of a file called `name`. Raises ConfigError."""
    document = read(text, name)
    if document.misfits:
        raise document.refusal(document.misfits)
    try:
        file = CasesFile.model_validate(document.tree)
    except ValidationError as error:
        raise document.refusal(misfits(error, document, CasesFile)) from None
    if found := [*_misfits(file, fleet)]:
        raise document.refusal(found)
    return tuple(
        _case(case, file, fleet, document.place(("cases", index)).line)
        for index, case in enumerate(file.cases)
    )


def idle(draft: Draft, fleet: Fleet) -> tuple[RegionView, ...]:
    """Show every region healthy, idle and as far from the draft's origin as the file says."""
    return tuple(_view(name, StateSection(), draft, fleet) for name in fleet.regions)


def _misfits(file: CasesFile, fleet: Fleet) -> Iterator[MisfitError]:
    if file.version != 1:
        yield MisfitError(("version",), "must be 1, the only format there is")
    if file.origin:
        yield from _unknown(file.origin, ("origin",), fleet)
    yield from _states(file.regions, (), fleet)
    seen: set[str] = set()
    for index, case in enumerate(file.cases):
        here: TreePath = ("cases", index)
        if case.name in seen:
            yield MisfitError((*here, "name"), "another case has this name; choose another")
        seen.add(case.name)
        yield from _states(case.regions, here, fleet)
        yield from _task(case.task, (*here, "task"), fleet, has_origin=bool(file.origin))
        yield from _expect(case.expect, (*here, "expect"), fleet)


def _states(
    regions: Mapping[str, StateSection], above: TreePath, fleet: Fleet
) -> Iterator[MisfitError]:
    for name, state in regions.items():
        here: TreePath = (*above, "regions", name)
        yield from _unknown(name, here, fleet, at_key=True)
        given = state.model_fields_set
        if "wait" in given and (others := sorted(given.intersection(_LOAD))):
            problem = f"stands for {', '.join(others)}; keep one of them"
            yield MisfitError((*here, "wait"), problem, at_key=True)
        if state.wait is not None and not state.slots:
            yield MisfitError((*here, "wait"), "nobody waits where there are no slots", at_key=True)
        if state.free is not None and state.free > state.slots:
            yield MisfitError((*here, "free"), f"is more than the {state.slots} slots there are")


def _task(
    task: TaskSection, here: TreePath, fleet: Fleet, *, has_origin: bool
) -> Iterator[MisfitError]:
    if task.origin:
        yield from _unknown(task.origin, (*here, "origin"), fleet)
    elif not has_origin:
        problem = "comes from nowhere: give it an origin, or the whole file one"
        yield MisfitError(here, problem)
    if task.pin:
        yield from _unknown(task.pin, (*here, "pin"), fleet)
    for index, group in enumerate(task.residency):
        if group not in fleet.groups:
            problem = f"no region is in group {group}{did_you_mean(group, fleet.groups)}"
            yield MisfitError((*here, "residency", index), problem)


def _expect(expect: ExpectSection, here: TreePath, fleet: Fleet) -> Iterator[MisfitError]:
    given = expect.model_fields_set
    if not any(getattr(expect, key) for key in _EXPECTATIONS):
        yield MisfitError(here, f"says nothing; give one of {', '.join(_EXPECTATIONS)}")
    for one, other in _EXCLUSIVE:
        if {one, other} <= given:
            yield MisfitError((*here, other), f"{one} is given, too; keep one", at_key=True)
    if expect.region:
        yield from _unknown(expect.region, (*here, "region"), fleet)
    for index, name in enumerate(expect.any_of):
        yield from _unknown(name, (*here, "any_of", index), fleet)
    for name in expect.excluded:
        yield from _unknown(name, (*here, "excluded", name), fleet, at_key=True)
    for name, text in expect.share.items():
        yield from _unknown(name, (*here, "share", name), fleet, at_key=True)
        if _SHARE.fullmatch(text) is None:
            problem = "must be a share such as 30%, '>= 70%' or '< 5%'"
            yield MisfitError((*here, "share", name), problem)


def _unknown(
    name: str, path: TreePath, fleet: Fleet, *, at_key: bool = False
) -> Iterator[MisfitError]:
    if name not in fleet.regions:
        problem = f"there is no region {name}{did_you_mean(name, fleet.regions)}"
        yield MisfitError(path, problem, at_key=at_key)


def _case(case: CaseSection, file: CasesFile, fleet: Fleet, line: int) -> Case:
    task, expect = case.task, case.expect
    origin = task.origin or file.origin
    draft = Draft(
        name=task.name,
        queue=task.queue,
        affinity_key=task.key,
        tenant=task.tenant,
        labels=task.labels,
        residency=tuple(task.residency),
        pin_region=task.pin,
        origin_region=origin,
    )
    return Case(
        name=case.name,
        line=line,
        origin=origin,
        draft=draft,
        views=tuple(
            _view(name, _merged(file.regions.get(name), case.regions.get(name)), draft, fleet)
            for name in fleet.regions
        ),
        expected=Expected(
            any_of=(expect.region,) if expect.region else tuple(expect.any_of),
            rule=expect.rule,
            excluded=expect.excluded,
            share={name: _bound(text) for name, text in expect.share.items()},
            refused=expect.refused or "",
        ),
    )


def _merged(base: StateSection | None, over: StateSection | None) -> StateSection:
    """Give `over` what `base` says and it does not, key by key."""
    if base is None or over is None:
        return over or base or StateSection()
    given = {key: getattr(over, key) for key in over.model_fields_set}
    kept = {key: getattr(base, key) for key in base.model_fields_set - given.keys()}
    if "wait" in given:
        kept = {key: value for key, value in kept.items() if key not in _LOAD}
    elif not _LOAD.isdisjoint(given):
        kept.pop("wait", None)
    return StateSection().model_copy(update=kept | given)


def _view(name: str, state: StateSection, draft: Draft, fleet: Fleet) -> RegionView:
    origin = draft.origin_region
    rtt_ms = HOME_RTT_MS if name == origin else fleet.rtt_ms.get((origin, name), UNSEEN_RTT_MS)
    served = {draft.queue: ["*"]} if state.slots else {}
    unserved_ms = 0.0 if state.slots else _LONG_MS
    seen = RegionView(
        name,
        rtt_ms=rtt_ms if state.rtt is None else state.rtt,
        ok=state.ok,
        health=_HEALTH[state.health],
        trial=state.health == "half-open",
        kept_out=state.health == "kept-out",
        state=_STATE[state.state],
        depth=state.depth,
        slots=state.slots,
        free_slots=state.slots if state.free is None else state.free,
        rate=state.rate,
        service_s=state.service / 1000,
        age_s=state.age / 1000,
        full=state.full,
        evicts=state.evicts,
        lacks=dict.fromkeys(state.lacks, "so says the case"),
        served={
            queue: frozenset(handlers)
            for queue, handlers in (served if state.served is None else state.served).items()
        },
        unserved_for_s=(unserved_ms if state.unserved_for is None else state.unserved_for) / 1000,
        ramp=state.ramp,
        live_share=state.live,
    )
    if not state.wait:
        return seen
    # All slots are taken and as many tasks wait for them: the last one for one service time.
    return replace(seen, depth=state.slots - 1, free_slots=0, rate=0.0, service_s=state.wait / 1000)


def _bound(text: str) -> Bound:
    found = _SHARE.fullmatch(text)
    sign, percent = (found[1], found[2]) if found else ("", "0")  # checked before
    return Bound(text, sign or "", float(percent) / 100)
