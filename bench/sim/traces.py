"""When tasks come and how long they run: real traces, scaled, or a Poisson process."""

import csv
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from bench.sim import data

FILES = {
    "conversation": "arrivals_azure_llm_2023_conv.csv",
    "code": "arrivals_azure_llm_2023_code.csv",
}
# Tokens stand in for service time, as the data's README says: 0.05 s and 20 ms a token.
BASE_TOKENS = 2.5
_BUILT_IN = 20_000  # arrivals of the built-in one, about as many as the conversation trace has


@dataclass(frozen=True, slots=True)
class Trace:
    """Gaps between arrivals and service times, each scaled to a mean of 1."""

    source: str
    gaps: Sequence[float]
    works: Sequence[float]

    def arrivals(
        self, rate: float, service_s: float, start_s: float, chance: random.Random
    ) -> Iterator[tuple[float, float]]:
        """Yield (when, service time) in seconds for ever: `rate` a second, `service_s` on average.

        Each pass over the trace begins elsewhere in it, so that seeds and passes differ while
        bursts and lulls stay as they were.
        """
        now_s, count = start_s, len(self.gaps)
        while True:
            offset = chance.randrange(count)
            for index in range(offset, offset + count):
                now_s += self.gaps[index % count] / rate
                yield now_s, self.works[index % count] * service_s


def load(name: str) -> Trace:
    """Return the trace `conversation`, `code` or `poisson`; without the file, `poisson`."""
    path = data.find(FILES[name]) if name in FILES else None
    if path is None:
        return _poisson()
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    # Seven digits of a second; fromisoformat takes six.
    times_s = [datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in rows]
    gaps = [max(0.0, after - before) for before, after in pairwise(times_s)]
    works = [int(row["GeneratedTokens"]) + BASE_TOKENS for row in rows[1:]]
    return Trace(path.stem, _to_mean_1(gaps), _to_mean_1(works))


def _poisson() -> Trace:
    chance = random.Random(1)
    gaps = [chance.expovariate(1.0) for _ in range(_BUILT_IN)]
    works = [chance.expovariate(1.0) for _ in range(_BUILT_IN)]
    return Trace("poisson", _to_mean_1(gaps), _to_mean_1(works))


def _to_mean_1(values: Sequence[float]) -> list[float]:
    mean = sum(values) / len(values)
    return [value / mean for value in values]
