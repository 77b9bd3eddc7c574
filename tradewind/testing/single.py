"""One handler, called once: for unit tests that need no task."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tradewind.handlers import (
    Context,
    Handler,
    Result,
    ResultTooLarge,
    Signals,
    encode_result,
)

_JSON = "application/json"
_BYTES = "application/octet-stream"


def fake_context(
    task_id: str = "test",
    *,
    cancelled: bool = False,
    reports: list[tuple[float, str]] | None = None,
    **fields: Any,
) -> Context:
    """A Context as a worker would give it: `fields` are those of Context, such as `attempt`.

    `cancelled`: the handler is told to stop. `reports` takes what it says of its progress.
    """
    signals = Signals()
    if cancelled:
        signals.cancelled.set()
    if reports is not None:
        signals.report = lambda fraction, note: reports.append((fraction, note))
    return Context(task_id=task_id, signals=signals, **fields)


async def call(
    handler: Handler | Callable[..., Any],
    context: Context | None = None,
    args: Mapping[str, Any] | bytes | None = None,
) -> Any:
    """Call a handler as a worker would, and return its result as a waiter would get it.

        assert await call(send, fake_context(attempt=2), {"to": "a@example.org"}) == {"sent": True}

    `args` go through JSON and are checked against the hints. `handler` is a function, or one of
    `app.handlers`: then the app's hooks run, too. Raises what the handler raises, Reject for a
    wrong argument, and TypeError or ResultTooLarge for a result that could not be stored.
    """
    if not isinstance(handler, Handler):
        handler = Handler(getattr(handler, "__qualname__", repr(handler)), handler, None, None)
    payload = args if isinstance(args, bytes) else json.dumps(args or {}).encode()
    content_type = _BYTES if isinstance(args, bytes) else _JSON
    context = context or fake_context()
    value = handler.call(context, payload, content_type)()
    result = _stored(handler, await value if handler.is_async else value)
    return json.loads(result.data) if result.content_type == _JSON else result.data


def _stored(handler: Handler, value: Any) -> Result:
    try:
        return encode_result(value)
    except ResultTooLarge:
        raise
    except Exception as error:  # a value of the app: reading it may do anything
        raise TypeError(
            f"handler {handler.name}: the result cannot be stored as JSON "
            f"({type(error).__name__}: {error}); return JSON values or bytes"
        ) from error
