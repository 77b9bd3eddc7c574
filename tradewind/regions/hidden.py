"""What may not stand in the file itself: values from the environment, secrets from their files.

No message here quotes what was found.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from tradewind.limits import KIB
from tradewind.regions.reader import MisfitError


class AbsentError(MisfitError):
    """The file is in order, but what it points to, a variable or a secret's file, is not here."""


ENV = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MAX_SECRET_BYTES = 4 * KIB


def expand(text: str, env: Mapping[str, str], at: tuple[str, ...]) -> str:
    """Fill in each `${NAME}` from `env`. Raises AbsentError at `at` if it is not set."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if not env.get(name):
            raise AbsentError(at, f"environment variable {name} is not set")
        return env[name]

    return ENV.sub(value, text)


def secret_in(path: Path, at: tuple[str, ...], what: str) -> str:
    """Read a secret from its file, without the line end. Raises MisfitError at `at`.

    That is an AbsentError if the file cannot be read. `what` is its name in a message: the
    password.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_SECRET_BYTES + 1)
        secret = data.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise AbsentError(at, f"cannot be read: {error.strerror or 'unknown reason'}") from None
    except UnicodeDecodeError:
        raise MisfitError(at, "does not hold UTF-8 text") from None
    if not secret or len(data) > _MAX_SECRET_BYTES:
        raise MisfitError(at, f"must hold 1 to {_MAX_SECRET_BYTES} bytes, {what} alone")
    return secret
