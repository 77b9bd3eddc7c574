"""Handlers that end in the worst ways their classes allow."""

import asyncio
from typing import Any, NoReturn

from tradewind import App, Context, Reject, Retry

app = App()
SECRET = "hunter2"


class Text(str):
    """A str that is not what it says."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> NoReturn:
        raise RuntimeError(SECRET, encoding, errors)

    def __str__(self) -> str:
        return self


class Mapping(dict[str, Any]):
    def __init__(self, error: BaseException) -> None:
        super().__init__(a=1)
        self.error = error

    def items(self) -> NoReturn:
        raise self.error


class Shown(Exception):
    """An error whose text is made by `show`."""

    def __init__(self, shows: BaseException | str) -> None:
        super().__init__(SECRET)
        self.shows = shows

    def __str__(self) -> str:
        if isinstance(self.shows, BaseException):
            raise self.shows
        return self.shows


class Named(type):
    @property
    def __name__(cls) -> NoReturn:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise RuntimeError(SECRET)


class Nameless(Exception, metaclass=Named):
    pass


class OwnRetry(Retry):
    def __init__(self) -> None:
        pass


class OwnReject(Reject):
    def __init__(self) -> None:
        pass


class Trap(Retry):
    def __init__(self) -> None:
        pass

    @property
    def after_ms(self) -> NoReturn:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise SystemExit(SECRET)


class Ends(BaseException):
    pass


RAISED: dict[str, BaseException] = {
    "a lone surrogate": ValueError("bad file \udcff"),
    "a lone surrogate in a reason": Reject("bad file \udcff"),
    "a reason that is a str subclass": Reject(Text("odd")),
    "a retry for a lone surrogate": Retry(reason="bad file \udcff"),
    "a str subclass from __str__": Shown(Text("odd")),
    "__str__ that is cancelled": Shown(asyncio.CancelledError()),
    "__str__ that exits": Shown(SystemExit(1)),
    "__str__ that interrupts": Shown(KeyboardInterrupt()),
    "__str__ that fails": Shown(RuntimeError(SECRET)),
    "a class without a name": Nameless(),
    "a Retry that did not call __init__": OwnRetry(),
    "a Reject that did not call __init__": OwnReject(),
    "a Retry that exits when it is read": Trap(),
    "an error that is no Exception": Ends(SECRET),
    "GeneratorExit": GeneratorExit(SECRET),
    "StopAsyncIteration": StopAsyncIteration(SECRET),
    "StopIteration": StopIteration(SECRET),
    "a cancellation": asyncio.CancelledError(SECRET),
    "an exit": SystemExit(SECRET),
    "an interrupt": KeyboardInterrupt(SECRET),
}
RETURNED: dict[str, Any] = {
    "a dict whose items() raises": Mapping(RuntimeError(SECRET)),
    "a dict whose items() is cancelled": Mapping(asyncio.CancelledError()),
    "a dict whose items() exits": Mapping(SystemExit(1)),
    "a lone surrogate": "\udcff",
    "a generator": (n for n in (1,)),
    "a number that is none": float("nan"),
}


@app.task("raise.async", attempts=1)
async def raise_async(ctx: Context, which: str) -> None:
    raise RAISED[which]


@app.task("raise.plain", attempts=1)
def raise_plain(ctx: Context, which: str) -> None:
    raise RAISED[which]


@app.task("return.async", attempts=1)
async def return_async(ctx: Context, which: str) -> object:
    return RETURNED[which]


@app.task("return.plain", attempts=1)
def return_plain(ctx: Context, which: str) -> object:
    return RETURNED[which]


@app.task("fine")
async def fine(ctx: Context) -> str:
    return "fine"
