"""Durations, shares and backoffs."""

import pytest

from tests.unit.regions.files import TWO, refused
from tradewind.regions import loads

UNITS = {
    "a number without a unit": ("timeout: 30", "a duration needs a unit: write 30s or 30ms"),
    "a quoted number without a unit": ("timeout: '30'", "needs a unit: write 30s or 30ms"),
    "0 without a unit": ("starvation_after: 0", "needs a unit: write 0s or 0ms"),
    "an unknown unit": ("timeout: 3w", "must be a duration such as 250ms, 30s, 5m, 24h or 14d"),
    "two units": ("timeout: 1h30m", "must be a duration such as"),
    "a space": ("timeout: 3 s", "must be a duration such as"),
    "a minus sign": ("timeout: -3s", "must be a duration such as"),
    "a boolean": ("timeout: true", "must be a duration such as"),
    "other digits": ("timeout: '٣s'", "must be a duration such as"),
    "too short": ("lease: 10ms", "must be 1s to 1h"),
    "too long": ("timeout: 13h", "must be 1ms to 12h"),
    "parts of a millisecond": ("timeout: 1.5ms", "must be whole milliseconds"),
}


@pytest.mark.parametrize(("setting", "problem"), UNITS.values(), ids=UNITS)
def test_a_duration_cannot_be(setting: str, problem: str) -> None:
    error = refused(TWO + f"queues: {{default: {{{setting}}}}}")
    assert error.key == "queues.default." + setting.split(":", maxsplit=1)[0]
    assert problem in error.problem


DURATIONS = {"250ms": 250, "30s": 30_000, "5m": 300_000, "1.5h": 5_400_000, "0.001s": 1}


@pytest.mark.parametrize(("text", "expected_ms"), DURATIONS.items())
def test_a_duration_is(text: str, expected_ms: int) -> None:
    fleet = loads(TWO + f"queues: {{default: {{timeout: {text}}}}}", env={})
    assert fleet.default_queue.timeout_ms == expected_ms
    assert isinstance(fleet.default_queue.timeout_ms, int)


SHARES = {
    "a fraction": ("0.3", "a share needs a percent sign: write 30%"),
    "a number": ("30", "a share needs a percent sign: write 30%"),
    "too much": ("101%", "must be 0% to 100%"),
    "words": ("a third", "must be a share such as 30%"),
}


@pytest.mark.parametrize(("text", "problem"), SHARES.values(), ids=SHARES)
def test_a_share_cannot_be(text: str, problem: str) -> None:
    assert problem in refused(TWO + f"steering: {{band: {text}}}").problem


# --- C27: backoff

BACKOFFS = {
    "no cap": ("{max: }", "max"),
    "no first wait": ("{initial: ~}", "initial"),
    "a cap of 0": ("{max: 0s}", "max"),
    "a first wait of 0": ("{initial: 0ms}", "initial"),
    "a negative cap": ("{max: -5s}", "max"),
    "a cap beyond all time": ("{max: 1e308}", "max"),
    "a cap beyond all time, with a unit": ("{max: 1e308s}", "max"),
    "a cap of NaN": ("{max: .nan}", "max"),
    "an infinite cap": ("{max: .inf}", "max"),
    "a factor below 1": ("{factor: 0.5}", "factor"),
    "a factor of 0": ("{factor: 0}", "factor"),
    "a negative factor": ("{factor: -2}", "factor"),
    "a factor beyond all": ("{factor: 1e308}", "factor"),
    "a factor of NaN": ("{factor: .nan}", "factor"),
    "an infinite factor": ("{factor: .inf}", "factor"),
}


@pytest.mark.parametrize(("backoff", "key"), BACKOFFS.values(), ids=BACKOFFS)
@pytest.mark.parametrize("queue", ["default", "mail"])
def test_a_backoff_cannot_have(backoff: str, key: str, queue: str) -> None:
    error = refused(TWO + f"queues:\n  default: {{}}\n  {queue}x: {{backoff: {backoff}}}")
    assert (error.key, error.line) == (f"queues.{queue}x.backoff.{key}", 7)


def test_a_first_wait_above_the_cap_is_refused_wherever_the_two_come_from() -> None:
    both = refused(TWO + "queues: {default: {backoff: {initial: 3s, max: 2s}}}")
    assert both.key == "queues.default.backoff"
    inherited = refused(
        TWO + "queues:\n  default: {backoff: {initial: 3s}}\n  a: {backoff: {max: 2s}}"
    )
    assert (inherited.key, inherited.line) == ("queues.a.backoff", 7)


def test_what_is_wrong_in_default_is_shown_there() -> None:
    error = refused(TWO + "queues:\n  a: {}\n  default: {backoff: {max: 3}}")
    assert (error.key, error.line) == ("queues.default.backoff.max", 7)
