"""Why a connection failed, in our words."""

import re
import socket
import ssl
from typing import Final

from redis import exceptions as redis_errors

UNKNOWN_COMMAND: Final = "it lacks a command: it is a Sentinel, or has renamed it"

_CAUSES: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((redis_errors.AuthenticationError,), "login refused"),
    ((redis_errors.BusyLoadingError,), "still loading its data"),
    ((TimeoutError, redis_errors.TimeoutError), "no answer in time"),
    ((ConnectionRefusedError,), "connection refused"),
    ((socket.gaierror, UnicodeError), "its host name is unknown"),
    ((ssl.SSLCertVerificationError,), "its certificate is not trusted"),
    ((ssl.SSLError,), "TLS failed"),
    ((redis_errors.InvalidResponse,), "what answers there is no Redis"),
)
# What a Redis says to whoever it does not let in, in words that redis-py has no class for.
_SAID = {
    "max number of clients": "it has no connection left (maxclients)",
    "protected mode": "it lets nobody in from elsewhere (protected-mode)",
    "unknown command": UNKNOWN_COMMAND,
}


_DENIED: Final = re.compile(r"to run the '([a-z|-]+)' command")  # in all of Redis 7 and 8


def denied(text: str) -> str:
    """What a login lacks, of the words of a NOPERM: a command, or some of our keys or channels."""
    command = _DENIED.search(text)
    return f"its login lacks +{command[1]}" if command else "its login lacks ~tw:* or &tw:*"


def cause_of(error: BaseException) -> str:
    """A cause in our words: raw text from Redis or the socket may hold addresses and secrets."""
    known = error.__context__  # redis-py wraps what it met
    for one in (error, known) if known is not None else (error,):
        if isinstance(one, redis_errors.NoPermissionError):
            return denied(str(one))
        for kinds, cause in _CAUSES:
            if isinstance(one, kinds):
                return cause
    said = (cause for words, cause in _SAID.items() if words in str(error))
    lost = "connection lost" if isinstance(error, redis_errors.ConnectionError | OSError) else ""
    return next(said, lost or type(error).__name__)
