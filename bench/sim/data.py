"""Where the shared data is: beside the project, or where TRADEWIND_SHARED_DATA says."""

import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
VARIABLE = "TRADEWIND_SHARED_DATA"


def find(name: str) -> Path | None:
    """Return the path of a data file, or None: then the caller has something built in."""
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    path = folder / name
    return path if path.is_file() else None


def real_hours(outage: str) -> str:
    """Return how many hours the real outage of that id lasted, as the data says it; or nothing."""
    path = find("outages.json")
    if path is None:
        return ""
    entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    found = next((entry for entry in entries if entry["id"] == outage), None)
    return "" if found is None or found["hours"] is None else str(found["hours"])
