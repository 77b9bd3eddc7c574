"""What a replay is made of: a trace of arrivals, a matrix of round trips, a regions.yaml."""

import csv
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

BASE_S = 0.05  # service time of a request without output
TOKEN_S = 0.02  # ... and of each generated token

DEFAULT_REGIONS = "East US,West Europe,Southeast Asia"
# Used without a matrix: the P95 round trips of these three in the Azure matrix of 2026-07-30, ms.
DEFAULT_RTT = {
    ("East US", "West Europe"): 89.0,
    ("East US", "Southeast Asia"): 229.0,
    ("West Europe", "Southeast Asia"): 182.0,
}


class BadInput(Exception):
    """A file or option cannot be used; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of the trace, scaled: when it comes and how long it takes, in seconds."""

    index: int
    at_s: float
    seconds: float
    origin: str


def slug(name: str) -> str:
    """Give a region's name as regions.yaml wants it."""
    return name.strip().lower().replace(" ", "-")


def read_trace(
    path: Path, speed: float, origins: Sequence[str], limit: int | None
) -> list[Arrival]:
    """Read and scale a trace. Raises BadInput if it is none."""
    chance = random.Random(2023)
    arrivals: list[Arrival] = []
    first: datetime | None = None
    with path.open(newline="", encoding="utf-8") as stream:
        for index, row in enumerate(csv.DictReader(stream)):
            if limit is not None and index >= limit:
                break
            try:
                # Seven digits of a second; fromisoformat takes six.
                at = datetime.fromisoformat(row["TIMESTAMP"][:26])
                tokens = int(row["GeneratedTokens"])
            except (KeyError, TypeError, ValueError) as error:
                raise BadInput(f"{path}, row {index + 2}: no arrival ({error})") from None
            first = first or at
            arrivals.append(
                Arrival(
                    index=index,
                    at_s=(at - first).total_seconds() / speed,
                    seconds=(BASE_S + tokens * TOKEN_S) / speed,
                    origin=chance.choice(origins),
                )
            )
    if not arrivals:
        raise BadInput(f"{path} has no arrivals")
    return arrivals


def read_rtt(path: Path | None, regions: Sequence[str]) -> dict[tuple[str, str], float]:
    """Read round trips in ms between the regions from a matrix `src,dst,rtt_..._ms`."""
    if path is None:
        found = dict(DEFAULT_RTT)
    else:
        with path.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            column = next(
                (each for each in reader.fieldnames or () if "p95" in each or "avg" in each), ""
            )
            found = {
                (row["src"], row["dst"]): float(row[column]) for row in reader if row.get(column)
            }
    pairs = [(a, b) for index, a in enumerate(regions) for b in regions[index + 1 :]]
    chosen = {(a, b): found.get((a, b), found.get((b, a), 0.0)) for a, b in pairs}
    if missing := [pair for pair, rtt in chosen.items() if not rtt]:
        raise BadInput(f"no round trip between {missing[0][0]} and {missing[0][1]}: give --rtt")
    return chosen


def write_config(path: Path, regions: Sequence[str], rtt: Mapping[tuple[str, str], float]) -> None:
    """Write the regions.yaml of the run."""
    groups = "\n".join(
        f"  {slug(name)}: {{redis: 'redis://127.0.0.1:{6401 + number}', residency: [r{number}]}}"
        for number, name in enumerate(regions)
    )
    ways: dict[str, list[str]] = {}
    for (source, target), ms in rtt.items():
        ways.setdefault(slug(source), []).append(f"{slug(target)}: {ms:g}ms")
    table = "\n".join(f"  {source}: {{{', '.join(targets)}}}" for source, targets in ways.items())
    distances = f"rtt:\n{table}\n" if table else ""
    path.write_text(f"version: 1\nregions:\n{groups}\n{distances}", encoding="utf-8")
