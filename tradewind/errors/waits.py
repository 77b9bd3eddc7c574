"""What a client raises that waits for a router, or for the end of a task."""

from tradewind.errors.base import TradewindError


class RouterUnreachable(TradewindError):
    """No router answers at the address; asking again may help once one runs there."""

    retryable = True
    reason = "ROUTER_UNREACHABLE"

    def __init__(self, target: str, cause: str = "") -> None:
        """`target` is the address as given, `cause` what the connection said."""
        self.target, self.cause = target, cause
        said = f" ({cause})" if cause else ""
        super().__init__(
            f"no router answers at {target}{said}; start one with `tradewind up`, "
            "or name another with --router, TRADEWIND_ROUTER or Client(target)",
        )


class TaskEnded(TradewindError):
    """A task that was waited for ended without a result."""

    reason = "TASK_ENDED"

    def __init__(self, task_id: str, region: str, problem: str) -> None:
        """`region` owned the task in the end."""
        self.task_id, self.region = task_id, region
        super().__init__(f"task {task_id} {problem}")


class TaskDead(TaskEnded):
    """The task was given up, and nothing will move it on; only a redrive revives it."""

    reason = "TASK_DEAD"

    def __init__(self, task_id: str, region: str, kind: str, message: str) -> None:
        """`kind` is the closed kind of death, `message` what the handler or the worker said."""
        self.kind, self.message = kind, message
        super().__init__(task_id, region, f"died in {region} ({kind}): {message}")


class TaskCancelled(TaskEnded):
    """The task was cancelled before a handler finished it."""

    reason = "TASK_CANCELLED"

    def __init__(self, task_id: str, region: str) -> None:
        """As TaskEnded."""
        super().__init__(task_id, region, "was cancelled")


class TaskExpired(TaskEnded):
    """The task's `expires_at` passed while it waited."""

    reason = "TASK_EXPIRED"

    def __init__(self, task_id: str, region: str) -> None:
        """As TaskEnded."""
        super().__init__(task_id, region, "expired before an attempt could start")


class NoAnswer(TradewindError, TimeoutError):
    """The router did not answer in time. A submit may have been stored."""

    retryable = True
    reason = "NO_ANSWER"

    def __init__(self, target: str, waited_s: float, *, request_id: str = "") -> None:
        """`request_id` names the submit that is without an answer; empty for other calls."""
        self.target, self.waited_s, self.request_id = target, waited_s, request_id
        advice = (
            f"the task may have been stored: submit again with request_id={request_id} to find out"
            if request_id
            else "ask again later"
        )
        super().__init__(f"no answer from {target} within {waited_s:.3g} s; {advice}")


class WaitOver(TradewindError, TimeoutError):
    """The task did not end within the time that its waiter gave it. It goes on."""

    retryable = True
    reason = "WAIT_OVER"

    def __init__(self, task_id: str, waited_s: float) -> None:
        """`waited_s` as given to `wait`."""
        self.task_id, self.waited_s = task_id, waited_s
        super().__init__(f"task {task_id} did not end within {waited_s:g} s; it goes on")
