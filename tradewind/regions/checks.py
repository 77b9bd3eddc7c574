"""What no single key can tell: names that must exist, rules that can never hold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from tradewind.fleet import RedisTarget
from tradewind.ids import region_code
from tradewind.limits import MAX_NAME_BYTES, SUPPORTED_PARTITIONS
from tradewind.policy.rules import OWN_RULE_NAMES
from tradewind.regions.reader import MisfitError, TreePath
from tradewind.regions.schema import File, MatchSection, QueueSection, RuleSection
from tradewind.regions.units import bad_label, did_you_mean

_QUEUE_PUNCTUATION = frozenset("._:-/")  # docs/limits.md


def misfits(file: File, doubtful: Callable[[TreePath], bool]) -> Iterator[MisfitError]:
    """Yield everything that is wrong, in the order of the file's sections.

    `doubtful(path)`: something there was refused before and replaced, so nothing follows from it.
    """
    if file.version != 1:
        yield MisfitError(("version",), "must be 1, the only format there is")
    if bad := bad_label(file.deployment):
        yield MisfitError(("deployment",), bad)
    if file.partitions not in SUPPORTED_PARTITIONS:
        known = ", ".join(map(str, SUPPORTED_PARTITIONS))
        yield MisfitError(("partitions",), f"must be one of {known}")
    yield from _regions(file)
    yield from _rtt(file)
    yield from _rules(file, doubtful)
    for name, queue in file.queues.items():
        yield from _queue(name, queue)
    yield from _failover(file)
    if file.steering.wait_weight == file.steering.rtt_weight == 0:
        yield MisfitError(("steering",), "wait_weight and rtt_weight cannot both be 0")
    for key in sorted(file.security.model_fields_set):
        yield MisfitError(("security", key), "is not served yet; remove it", at_key=True)


def _regions(file: File) -> Iterator[MisfitError]:
    if not file.regions:
        yield MisfitError(("regions",), "needs at least one region")
    codes: dict[int, str] = {}
    for name, region in file.regions.items():
        here = ("regions", name)
        if bad := bad_label(name):
            yield MisfitError(here, bad, at_key=True)
        elif (other := codes.setdefault(region_code(name), name)) != name:
            problem = f"has the same code in task ids as {other}; rename one of the two"
            yield MisfitError(here, problem, at_key=True)
        for index, group in enumerate(region.residency):
            if bad := bad_label(group):
                yield MisfitError((*here, "residency", index), bad)
        yield from _twice(region.residency, (*here, "residency"))
    if file.regions and not any(region.weight for region in file.regions.values()):
        yield MisfitError(("regions",), "all weights are 0: no task could go anywhere")


def same_server(targets: Mapping[str, RedisTarget]) -> Iterator[MisfitError]:
    """Yield regions whose addresses share a database: each would refuse the other's identity."""
    for (one, a), (other, b) in combinations(targets.items(), 2):
        apart = (a.service, a.database) != (b.service, b.database)
        if not apart and not set(a.nodes).isdisjoint(b.nodes):
            here = ("regions", other, "redis")
            yield MisfitError(here, f"is the Redis of {one}; give each region its own")


def _rtt(file: File) -> Iterator[MisfitError]:
    for source, row in file.rtt.items():
        here = ("rtt", source)
        yield from _unknown(source, here, file.regions, at_key=True)
        for target in row:
            yield from _unknown(target, (*here, target), file.regions, at_key=True)
            if target == source:
                yield MisfitError((*here, target), "a region has no way to itself", at_key=True)


def _rules(file: File, doubtful: Callable[[TreePath], bool]) -> Iterator[MisfitError]:
    groups = {group for region in file.regions.values() for group in region.residency}
    residency_known = not any(
        doubtful(("regions", name, "residency"))
        # Perhaps it is there, under a misspelt key.
        or (not region.residency and doubtful(("regions", name)))
        for name, region in file.regions.items()
    )
    seen: set[str] = set()
    catch_all = ""
    for index, rule in enumerate(file.rules):
        here = ("rules", index)
        if catch_all:
            problem = f"is never reached: rule {catch_all} before it matches every task"
            yield MisfitError(here, problem)
        elif _matches_all(rule.match) and not doubtful(here):
            catch_all = rule.name
        if rule.name in OWN_RULE_NAMES:
            yield MisfitError((*here, "name"), "is the name of a built-in rule; choose another")
        if rule.name in seen:
            yield MisfitError((*here, "name"), "another rule has this name; choose another")
        seen.add(rule.name)
        for position, group in enumerate(rule.residency):
            if group not in groups and residency_known:
                problem = f"no region is in group {group}{did_you_mean(group, groups)}"
                yield MisfitError((*here, "residency", position), problem)
        yield from _preferred(file, rule, index, residency_known=residency_known)


def _matches_all(match: MatchSection) -> bool:
    wanted = (match.names, match.queues, match.tenants)
    return not match.labels and all(not globs or "*" in globs for globs in wanted)


def _preferred(
    file: File, rule: RuleSection, index: int, *, residency_known: bool
) -> Iterator[MisfitError]:
    here = ("rules", index, "prefer")
    yield from _twice(rule.prefer, here)
    for position, name in enumerate(rule.prefer):
        yield from _unknown(name, (*here, position), file.regions)
        region = file.regions.get(name) if residency_known else None
        if region and rule.residency and set(rule.residency).isdisjoint(region.residency):
            problem = f"{name} is outside the rule's own fence [{', '.join(rule.residency)}]"
            yield MisfitError((*here, position), problem)


def _queue(name: str, queue: QueueSection) -> Iterator[MisfitError]:
    here = ("queues", name)
    odd = not all(char.isalnum() or char in _QUEUE_PUNCTUATION for char in name)
    if not name or odd or not name.isascii() or len(name) > MAX_NAME_BYTES:
        problem = f"queue names are 1 to {MAX_NAME_BYTES} letters, digits and ._:-/"
        yield MisfitError(here, problem, at_key=True)
    if queue.backoff.initial > queue.backoff.max:
        yield MisfitError((*here, "backoff"), "initial is longer than max")
    yield from _twice(queue.failover.on, (*here, "failover", "on"))


def _failover(file: File) -> Iterator[MisfitError]:
    for source, order in file.failover.order.items():
        here = ("failover", "order", source)
        yield from _unknown(source, here, file.regions, at_key=True)
        yield from _twice(order, here)
        for position, name in enumerate(order):
            yield from _unknown(name, (*here, position), file.regions)
            if name == source:
                yield MisfitError((*here, position), "a region cannot take over from itself")


def _unknown(
    name: str, path: tuple[str | int, ...], known: Mapping[str, object], *, at_key: bool = False
) -> Iterator[MisfitError]:
    if name not in known:
        problem = f"there is no region {name}{did_you_mean(name, known)}"
        yield MisfitError(path, problem, at_key=at_key)


def _twice(names: Sequence[str], path: tuple[str | int, ...]) -> Iterator[MisfitError]:
    for position, name in enumerate(names):
        if name in names[:position]:
            yield MisfitError((*path, position), f"{name} is named twice")
