"""What every error of ours can say."""

from typing import ClassVar


class TradewindError(Exception):
    """Base of all errors. `retryable` says whether the same call may succeed later."""

    retryable: ClassVar[bool] = False
    reason: ClassVar[str] = "UNSPECIFIED"
    #: Of a submit: it was its request_id's first attempt, and certainly nothing of it is stored
    #: anywhere or will be. So the same task may be submitted under another request_id.
    nothing_kept: bool = False
    #: ... which may be kept by a region that answers.
    elsewhere: bool = False
