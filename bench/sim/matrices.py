"""Round trips between regions: measured ones of the shared data, else by distance."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.sim import data

HOME_MS = 1.0  # inside a region; the measured ones lie between 0.1 and 1 ms
NEAR_MS = 80.0  # below it, regions count as one residency group

FILES = {
    "azure": "azure_rtt_p95_2026-07-30.csv",
    "aws": "aws_rtt_2020-06-05.csv",
    "gcp": "gcp_rtt_2019-09.csv",
}

# Five that are near and far, of which East US is over capacity with the shares of scenarios.
AZURE_FIVE = ("East US", "West US 2", "West Europe", "Germany West Central", "Southeast Asia")

# Latitude and longitude in degrees: where no measurement is at hand, and for more than 20 regions.
_PLACES = {
    "virginia": (38, -78), "oregon": (46, -120), "netherlands": (52, 5), "frankfurt": (50, 9),
    "singapore": (1, 104), "ohio": (40, -83), "california": (37, -122), "montreal": (45, -74),
    "london": (51, 0), "ireland": (53, -7), "paris": (49, 2), "stockholm": (59, 18),
    "milan": (45, 9), "madrid": (40, -4), "zurich": (47, 8), "warsaw": (52, 21),
    "tokyo": (36, 140), "osaka": (35, 136), "seoul": (37, 127), "hongkong": (22, 114),
    "mumbai": (19, 73), "hyderabad": (17, 78), "sydney": (-34, 151), "melbourne": (-38, 145),
    "jakarta": (-6, 107), "saopaulo": (-24, -47), "santiago": (-33, -71), "capetown": (-34, 18),
    "bahrain": (26, 51), "telaviv": (32, 35),
}  # fmt: skip
_EARTH_KM = 6371.0
_KM_PER_MS = 200.0  # light in glass
_DETOUR = 1.6  # cables against great circles: West Europe to East US comes out at 96 ms
_STATIONS_MS = 4.0


@dataclass(frozen=True, slots=True)
class Matrix:
    """Directed round trips in ms, and how much they vary (standard deviation, ms)."""

    source: str
    regions: tuple[str, ...]
    rtt_ms: Mapping[tuple[str, str], float]
    spread_ms: Mapping[tuple[str, str], float]

    @property
    def groups(self) -> Mapping[str, str]:
        """Residency group by region: regions that are joined by links below NEAR_MS."""
        group = {name: name for name in self.regions}
        for (one, other), ms in self.rtt_ms.items():
            if ms < NEAR_MS and group[one] != group[other]:
                kept, lost = sorted((group[one], group[other]))
                group = {name: kept if at == lost else at for name, at in group.items()}
        return group

    def only(self, regions: Sequence[str]) -> "Matrix":
        """Return the part between `regions`. Raises ValueError for one that is not in it."""
        if unknown := sorted(set(regions) - set(self.regions)):
            raise ValueError(f"{self.source} has no {unknown[0]}; it has {list(self.regions)}")
        kept = {(a, b) for a in regions for b in regions}
        return Matrix(
            self.source,
            tuple(regions),
            {pair: ms for pair, ms in self.rtt_ms.items() if pair in kept},
            {pair: ms for pair, ms in self.spread_ms.items() if pair in kept},
        )


def load(name: str, count: int = 0) -> Matrix:
    """Return the matrix `azure`, `aws`, `gcp` or `globe`, cut to its first `count` regions.

    `azure` begins with AZURE_FIVE. Without the file it is `globe`.
    """
    path = data.find(FILES[name]) if name in FILES else None
    if path is None:
        matrix = _globe()
    else:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        mean = next(column for column in rows[0] if "p95" in column or "avg" in column)
        pairs = {(row["src"], row["dst"]): row for row in rows if row["src"] != row["dst"]}
        regions = dict.fromkeys(source for source, _ in pairs)
        if name == "azure":
            regions = dict.fromkeys((*AZURE_FIVE, *regions))
        matrix = Matrix(
            path.stem,
            tuple(regions),
            {pair: float(row[mean]) for pair, row in pairs.items()},
            {pair: float(row.get("rtt_stddev_ms") or 0) for pair, row in pairs.items()},
        )
    if count > len(matrix.regions):
        raise ValueError(f"{matrix.source} has {len(matrix.regions)} regions, not {count}")
    return matrix.only(matrix.regions[:count]) if count else matrix


def _globe() -> Matrix:
    pairs = {
        (a, b): _km(at, to) * 2 * _DETOUR / _KM_PER_MS + _STATIONS_MS
        for a, at in _PLACES.items()
        for b, to in _PLACES.items()
        if a != b
    }
    return Matrix("globe", tuple(_PLACES), pairs, dict.fromkeys(pairs, 0.0))


def _km(at: tuple[int, int], to: tuple[int, int]) -> float:
    (lat, lon), (lat2, lon2) = ((math.radians(a), math.radians(b)) for a, b in (at, to))
    half = math.sin((lat2 - lat) / 2) ** 2
    half += math.cos(lat) * math.cos(lat2) * math.sin((lon2 - lon) / 2) ** 2
    return 2 * _EARTH_KM * math.asin(math.sqrt(half))
