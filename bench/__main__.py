"""`make bench`: every measurement, one after the other; results as JSON in bench/results/."""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

from bench import due, start_delay, watch
from bench.machine import describe

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers: does it still run?")
    quick = parser.parse_args().quick
    result = {
        "machine": describe(),
        "start_delay": start_delay.measure(
            repetitions=2 if quick else 5, calls=50 if quick else 250
        ),
        "due": due.measure(
            repetitions=1 if quick else 5,
            tasks=20 if quick else 100,
            far=2_000 if quick else 100_000,
        ),
        "watch": watch.measure(
            repetitions=1 if quick else 5,
            tasks=10 if quick else 50,
            watchers=100 if quick else 1_000,
            idle_s=2.0 if quick else 10.0,
        ),
    }
    text = json.dumps(result, indent=2)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")  # noqa: TID251 - a file name
    (RESULTS / f"{stamp}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
