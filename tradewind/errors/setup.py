"""Why a process cannot start, or a file cannot be used."""

from collections.abc import Sequence

from tradewind.errors.base import TradewindError


class ConfigError(TradewindError):
    """A file cannot be used; the message gives place and remedy in one sentence."""

    reason = "CONFIG_INVALID"

    def __init__(
        self,
        path: str,
        problem: str,
        *,
        key: str = "",
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        """`line` and `column` count from 1."""
        self.path, self.problem, self.key = path, problem, key
        self.line, self.column = line, column
        place = path if line is None else f"{path}:{line}:{column}"
        super().__init__(f"{place}: {key + ': ' if key else ''}{problem}")


class ConfigErrors(ConfigError):
    """Several mistakes in one file. Place, key and problem are those of the first."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        """`errors` in the order of the file, at least one; the message has a line for each."""
        first = errors[0]
        super().__init__(
            first.path, first.problem, key=first.key, line=first.line, column=first.column
        )
        self.errors = tuple(errors)
        self.args = ("\n".join(map(str, errors)),)


class PolicyRefused(TradewindError):
    """A policy file was read again and cannot be used: the one before stays in force."""

    reason = "POLICY_REFUSED"


class SetupError(TradewindError):
    """A process cannot start: a port in use, a missing server, an app that cannot be imported."""

    reason = "SETUP"
