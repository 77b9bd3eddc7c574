"""Running the machine on scripts with one change, until somebody notices."""

import sys
import traceback
from dataclasses import dataclass
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import HypothesisException
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import fleet_on
from tests.machine.clock import Edit, build
from tests.machine.judge import BrokenInvariant
from tests.machine.regions import TwoRegions
from tradewind.local.scratch import RedisProcess
from tradewind.store import scripts

RUNS, STEPS = 250, 40  # at most, of each of the sequences
SEEDS = range(7, 13)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change that breaks an invariant of docs/architecture.md, and what it does."""

    invariant: int
    what: str
    edit: Edit


@dataclass(frozen=True, slots=True)
class Catch:
    """After how many steps the mutant was noticed, and by what."""

    steps: int
    by: str
    error: str


class Noticed(BaseException):
    """No Exception: Hypothesis would run the same steps again to explain it."""

    def __init__(self, catch: Catch) -> None:
        """`catch` tells what was noticed."""
        self.catch = catch
        super().__init__(catch)


class Hunted(TwoRegions):
    """The machine, which tells of the first failure and stops there."""

    def teardown(self) -> None:
        error: BaseException | None = sys.exc_info()[1]
        try:
            super().teardown()
        except Exception as late:  # noqa: BLE001  # whatever it is, it was noticed
            error = late
        if isinstance(error, Exception) and not isinstance(error, HypothesisException):
            raise Noticed(Catch(type(self).steps, noticed_by(error), str(error)))


def noticed_by(error: Exception) -> str:
    """The invariant that was seen broken, the rule whose answer was not as the model says, or
    that a script failed.
    """
    if isinstance(error, BrokenInvariant):
        return f"invariant {error.number}"
    if isinstance(error, AssertionError | KeyError):
        return f"model, {traceback.extract_tb(error.__traceback__)[-1].name}"
    return f"script failed, {type(error).__name__}"


def hunt(edit: Edit | None, servers: list[RedisProcess], monkeypatch: Any) -> Catch | None:
    """Run the machine, the same steps every time. None: nobody noticed."""
    monkeypatch.setattr(scripts, "load", build(edit))
    Hunted.servers, Hunted.fleet, Hunted.steps = servers, fleet_on(servers), 0
    try:
        for seed in SEEDS:
            _run(seed)
    except Noticed as noticed:
        return noticed.catch
    return None


def _run(seed: int) -> None:
    run_state_machine_as_test(
        hypothesis.seed(seed)(Hunted),
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            derandomize=False,
            phases=(Phase.generate,),
            suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
        ),
    )
