"""How large a case is told: short in `make test`, at the length of its text in `make test-long`."""

from dataclasses import dataclass
from typing import Any

import pytest

SWEEP_S = 10.0  # limits.SWEEP_EVERY_MS


@dataclass(frozen=True, slots=True)
class Scale:
    """`full`: the text's own times hold, and are asserted. Short, only the order of things is."""

    lease_s: float
    full: bool

    @property
    def queue(self) -> str:
        """What queues.default says, as YAML."""
        return (
            f"{{lease: {round(self.lease_s * 1000)}ms, attempts: 3, "
            "backoff: {initial: 50ms, factor: 2, max: 200ms}, timeout: 10m}"
        )

    @property
    def soon_s(self) -> float:
        """SOON of the cases: 2 leases, 2 sweeps and 5 s."""
        return 2 * self.lease_s + 2 * SWEEP_S + 5


def short_and_full(full_lease_s: float, *, timeout_s: float = 240) -> Any:
    """Parametrise `scale`: lease 1 s, and the case's own lease marked long."""
    return pytest.mark.parametrize(
        "scale",
        [
            pytest.param(Scale(1.0, full=False), id="short"),
            pytest.param(
                Scale(full_lease_s, full=True),
                id="full",
                marks=[pytest.mark.long, pytest.mark.timeout(timeout_s)],
            ),
        ],
    )
