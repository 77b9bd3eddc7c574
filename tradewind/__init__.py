"""Tradewind: hand in a task; the right region runs it, another finishes what that one cannot.

Names load when they are first used: `import tradewind` alone needs neither gRPC nor pydantic.
Type checkers read them in `__init__.pyi`.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "tradewind.client": (
        *("Cancellation", "Client", "Receipt", "Route", "Stay", "SyncClient", "TaskFailure"),
        *("TaskOptions", "TaskRequest", "TaskView"),
    ),
    "tradewind.errors": ("TaskCancelled", "TaskDead", "TaskExpired", "TradewindError", "WaitOver"),
    "tradewind.handlers": ("App", "Context", "Reject", "Retry"),
    "tradewind.state": ("State",),
    "tradewind.task": ("Priority",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = import_module("importlib.metadata").version("tradewind")
    elif name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name]), name)
    else:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, "__version__"})
