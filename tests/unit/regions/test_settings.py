"""Every key of regions.yaml that says something else is named, in the words of the file."""

import pytest

from tradewind.regions import loads
from tradewind.regions.settings import settings

BASE = """\
version: 1
regions:
  us: {redis: 'redis://h:1', residency: [us], weight: 200, cost: 0.8}
  eu: {redis: 'redis://h:2', residency: [eu]}
  ap: {redis: 'redis://h:3', residency: [apac], weight: 0}
rtt: {us: {eu: 89ms}, eu: {ap: 138ms}}
rules:
  - {name: pii, match: {labels: {class: pii}}, residency: [eu]}
  - {name: gpu, match: {names: ['gpu.*']}, prefer: [us, eu]}
queues:
  default: {attempts: 5}
  mail: {timeout: 1m}
failover: {order: {us: [eu]}}
"""
ZERO = (
    "regions.us.weight: 200 -> 0; it takes no new tasks but pinned ones and those for which "
    "failover.order names it, and may leave the file one window (24h) later"
)
LEAVES = (
    "regions.ap leaves, with weight 0: right if it has had that for one window (24h), and nothing "
    "is left in it"
)
COMES = "regions.me is new, and marked so: take `new` away one window (24h) later"
NEEDED = "a region needs {}, else it is refused for it"
ORDER = "rules: the first that matches wins, in the order gpu > pii"
PII = "  - {name: pii, match: {labels: {class: pii}}, residency: [eu]}\n"
STEERING = """\
steering: {band: 10%, cost_weight: 5s}
panic: {mode: reject}
health: {interval: 2s, timeout: 1s}
"""
EU, AP = "residency: [eu]}\n  ap", "  ap: {redis: 'redis://h:3', residency: [apac], weight: 0}\n"
CASES: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
    "nothing": ([("version: 1\n", "version: 1  # as before\n")], []),
    "a default that is spelt out": ([(EU, EU.replace("}", ", weight: 100}"))], []),
    "a weight that becomes 0": ([("weight: 200", "weight: 0")], [ZERO]),
    "a weight": ([("weight: 200", "weight: 100")], ["regions.us.weight: 200 -> 100"]),
    "a weight that was 0": (
        [("weight: 0}", "weight: 50}")],
        ["regions.ap.weight: 0 -> 50; it takes new tasks again"],
    ),
    "a region that leaves, with its distance": (
        [(AP, ""), (", eu: {ap: 138ms}", "")],
        [LEAVES, "rtt.eu.ap: 138ms -> (not said)"],
    ),
    "a region that comes": (
        [("rtt:", "  me: {redis: 'redis://h:4', new: true}\nrtt:")],
        [COMES],
    ),
    "limits": (
        [("cost: 0.8", "cost: 1, limits: {max_wait: 10s, max_spill_in: 5%, max_backlog: 7}")],
        [
            "regions.us.cost: 0.8 -> 1",
            "regions.us.limits.max_backlog: 100000 -> 7",
            "regions.us.limits.max_wait: 30s -> 10s",
            "regions.us.limits.max_spill_in: 30% -> 5%",
        ],
    ),
    "what a queue is to survive, and what that needs": (
        [("mail: {timeout: 1m}", "mail: {timeout: 1m, durability: replica}")],
        [
            "queues.mail.durability: memory -> replica; "
            + NEEDED.format("a replica of each primary")
        ],
    ),
    "what all queues are to survive": (
        [("attempts: 5", "attempts: 5, durability: fsync")],
        [
            "queues.default.durability: memory -> fsync; "
            + NEEDED.format("an append-only file, and Redis 7.2 or appendfsync always")
        ],
    ),
    "groups": (
        [("residency: [us]", "residency: [us, eu]")],
        ["regions.us.residency: [us] -> [us, eu]"],
    ),
    "a distance, once": ([("89ms", "90ms")], ["rtt.us.eu: 89ms -> 90ms"]),
    "a distance, one way": (
        [("eu: {ap: 138ms}", "eu: {ap: 138ms, us: 95ms}")],
        ["rtt.eu.us: (not said) -> 95ms"],
    ),
    "a rule's wishes and match, but not its fence, which is told apart": (
        [
            ("prefer: [us, eu]", "prefer: [eu]"),
            ("'gpu.*'", "'gpu.?'"),
            (PII, PII.replace("eu", "us")),
        ],
        ["rules.gpu.match.names: [gpu.*] -> [gpu.?]", "rules.gpu.prefer: [us, eu] -> [eu]"],
    ),
    "a rule's key": (
        [("prefer: [us, eu]", "affinity: {mode: required}")],
        [
            "rules.gpu.prefer: [us, eu] -> []",
            "rules.gpu.affinity.key: (not said) -> affinity_key",
            "rules.gpu.affinity.mode: (not said) -> required",
        ],
    ),
    "the order of rules": ([(PII, ""), ("queues:", PII + "queues:")], [ORDER]),
    "a rule that is gone": ([(PII, "")], ["rules.pii is gone"]),
    "what every queue inherits, once": (
        [("attempts: 5", "attempts: 9")],
        ["queues.default.attempts: 5 -> 9"],
    ),
    "what one queue has of its own": (
        [("timeout: 1m", "timeout: 2m, dedup: {window: 1h}")],
        ["queues.mail.timeout: 1m -> 2m", "queues.mail.dedup.window: 24h -> 1h"],
    ),
    "a queue that is as the default again": (
        [("  mail: {timeout: 1m}\n", "")],
        ["queues.mail.timeout: 1m -> 10m"],
    ),
    "who takes over": (
        [("order: {us: [eu]}", "order: {us: [eu, ap]}, unserved_after: 1m")],
        ["failover.order.us: [eu] -> [eu, ap]", "failover.unserved_after: 15s -> 1m"],
    ),
    "how tasks are steered, and judged": (
        [("queues:", f"{STEERING}queues:")],
        [
            "panic.mode: best_effort -> reject",
            "steering.band: 20% -> 10%",
            "steering.cost_weight: 0s -> 5s",
            "health.interval: 5s -> 2s",
            "health.timeout: 3s -> 1s",
        ],
    ),
    "who hears of dead tasks, of whom nothing is quoted": (
        [("timeout: 1m", "timeout: 1m, on_dead: {task: mourn}")],
        ["queues.mail.on_dead: a receiver"],
    ),
}


@pytest.mark.parametrize(("edits", "said"), CASES.values(), ids=CASES)
def test_what_is_said_of(edits: list[tuple[str, str]], said: list[str]) -> None:
    new = BASE
    for before, after in edits:
        assert before in new
        new = new.replace(before, after, 1)
    assert settings(loads(BASE), loads(new)) == said


def test_the_way_back_of_a_weight_and_a_mark_is_told_too() -> None:
    marked = BASE.replace(EU, EU.replace("}", ", new: true}"))
    (said,) = settings(loads(marked), loads(BASE))
    assert said.startswith("regions.eu.new: true -> false; right if it has been marked for one")
