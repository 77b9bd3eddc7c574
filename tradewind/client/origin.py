"""Where a caller is that did not say so: in the region of the router it reached."""

import asyncio

import grpc.aio

from tradewind.client.calls import REPEATABLE, Router

#: Initial metadata of a router's health Check: its own region.
REGION_KEY = "tradewind-region"

# Asked by hand: both messages may be empty, and the SDK needs no package for them.
_CHECK = "/grpc.health.v1.Health/Check"

# A router at the other end of the world answers in half a second. A submit must not wait long for
# what only makes it faster.
_ASK_S = 2.0


class Origin:
    """Asks the router's health service for its region, once it is needed; keeps the answer."""

    def __init__(self, router: Router) -> None:
        """Share the client's connection; nothing is asked yet."""
        self._router = router
        self._region: str | None = None
        self._asking: asyncio.Task[str | None] | None = None

    async def region(self, timeout_s: float) -> str:
        """Give the router's region, or nothing if it did not say.

        Callers that meet share one question. A router that was not reached is asked again at the
        next call; one that answered never.
        """
        if self._region is None:
            if self._asking is None:
                self._asking = asyncio.create_task(self._ask(min(timeout_s, _ASK_S)))
                self._asking.add_done_callback(self._asked)
            return await asyncio.shield(self._asking) or ""
        return self._region

    async def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def _asked(self, task: "asyncio.Task[str | None]") -> None:
        self._asking = None
        if not task.cancelled() and task.exception() is None:
            self._region = task.result()

    async def _ask(self, timeout_s: float) -> str | None:
        """Give the region, nothing from a router that does not say, None if nobody answered."""
        check: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
        check = self._router.channel.unary_unary(_CHECK, _as_it_is, _as_it_is)
        call = check(b"", timeout=timeout_s)
        try:
            await call
        except grpc.aio.AioRpcError as error:
            # A refusal is an answer, too, of one that has no health service for instance.
            if error.code() in REPEATABLE:
                return None
        said = dict(await call.initial_metadata() or ()).get(REGION_KEY, "")
        return said if isinstance(said, str) else ""


def _as_it_is(message: bytes) -> bytes:
    return message
