"""Takes the measurements: contenders in turns, every number kept, one file."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import redis

from bench.figures import Figure, Metrics, Question, Round, Target, answers, number, standing
from bench.machine import spin_ms
from bench.rig.lab import Lab
from bench.rig.processes import BenchError
from bench.rows.model import Row
from tradewind.local.errors import LocalSetupError

FORMAT = 1

Say = Callable[[str], None]

# What a contender may die of without the run: each is a finding, written down beside the others.
_FAILURES = (
    BenchError,
    LocalSetupError,
    OSError,
    ValueError,
    LookupError,
    subprocess.SubprocessError,
    psutil.Error,
    redis.RedisError,
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One measuring of one contender. `error` says why there are no metrics."""

    repetition: int
    contender: str
    spin_ms: float
    load: float
    took_s: float
    metrics: Metrics
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """For the file."""
        return {
            "repetition": self.repetition,
            "contender": self.contender,
            "spin_ms": round(self.spin_ms, 2),
            "load": self.load,
            "took_s": round(self.took_s, 2),
            "metrics": dict(self.metrics),
            **({"error": self.error} if self.error else {}),
        }


def take(row: Row, lab: Lab, repetitions: int, say: Say, keep: Callable[[Any], None]) -> None:
    """Measure one row. `keep` gets all that is known of it after every sample."""
    samples: list[Sample] = []
    began_s = time.monotonic()
    say(f"{row.name}: {row.title}")
    try:
        with row.open(lab) as takes:
            names = list(takes)
            for repetition in range(min(repetitions, row.repetitions or repetitions)):
                # Forth and back, so that a drift of the machine meets all alike.
                for name in names if repetition % 2 == 0 else reversed(names):
                    sample = _sample(repetition, name, takes[name])
                    samples.append(sample)
                    say(f"  {repetition + 1} {name}: {_line(sample)}")
                    keep(_summary(row, samples, began_s))
    except _FAILURES as failure:
        say(f"  could not be prepared: {failure}")
        keep({**_summary(row, samples, began_s), "error": str(failure)})


def _sample(repetition: int, name: str, measure: Callable[[], Metrics]) -> Sample:
    spin, load = spin_ms(), os.getloadavg()[0]
    began_s = time.monotonic()
    metrics: Metrics = {}
    error = ""
    try:
        metrics = measure()
    except _FAILURES as failure:
        error = f"{type(failure).__name__}: {failure}"
    return Sample(repetition, name, spin, load, time.monotonic() - began_s, metrics, error)


def rounds(samples: Sequence[Sample]) -> list[Round]:
    """What each repetition gave."""
    by_repetition: dict[int, dict[str, Metrics]] = {}
    for sample in samples:
        if sample.metrics:
            by_repetition.setdefault(sample.repetition, {})[sample.contender] = sample.metrics
    return [by_repetition[repetition] for repetition in sorted(by_repetition)]


def figure(question: Question, taken: Sequence[Round]) -> dict[str, Any] | None:
    """The answer to a question as the file has it; None if no repetition has one."""
    values = answers(question, taken)
    if not values:
        return None
    summary = Figure.of(values)
    described: dict[str, Any] = {
        "name": question.name,
        "unit": question.unit,
        "better": "higher" if question.sense == ">=" else "lower",
        "median": summary.median,
        "low": summary.low,
        "high": summary.high,
        "values": values,
    }
    if question.target is not None:
        target = Target(question.sense, question.target, question.stretch)
        described |= {
            "target": question.target,
            "stretch": question.stretch,
            "sense": question.sense,
            "stands": standing(target, values),
        }
    return described


def _summary(row: Row, samples: Sequence[Sample], began_s: float) -> dict[str, Any]:
    taken = rounds(samples)
    found = [figure(question, taken) for question in row.questions]
    return {
        "title": row.title,
        "request_id": row.request_id,
        "took_s": round(time.monotonic() - began_s, 1),
        "figures": [one for one in found if one is not None],
        "samples": [sample.as_json() for sample in samples],
    }


def _line(sample: Sample) -> str:
    if sample.error:
        return sample.error
    shown = {k: v for k, v in sample.metrics.items() if not k.startswith(("n", "rss_mb_at_"))}
    text = " ".join(f"{name}={number(value)}" for name, value in shown.items())
    return f"{text}  [spin {sample.spin_ms:.0f} ms, {sample.took_s:.0f} s]"


def write(path: Path, result: Mapping[str, Any]) -> None:
    """Keep the result, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(result, indent=1) + "\n")
    draft.replace(path)
