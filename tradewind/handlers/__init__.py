"""What an app is written with: `App`, `Context`, `Retry`, `Reject`.

Light on purpose: standard library only, so that importing an app costs nothing and a handler can be
tested without Redis.
"""

from tradewind.handlers.app import App, Handler, Result, encode_result
from tradewind.handlers.context import Context, Flag, Signals, TaskLog
from tradewind.handlers.outcomes import Reject, ResultTooLarge, Retry

__all__ = [
    "App",
    "Context",
    "Flag",
    "Handler",
    "Reject",
    "Result",
    "ResultTooLarge",
    "Retry",
    "Signals",
    "TaskLog",
    "encode_result",
]
