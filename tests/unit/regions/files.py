"""Small files, and what becomes of them."""

from pathlib import Path

import pytest

from tradewind.errors import ConfigError, ConfigErrors
from tradewind.regions import loads

ROOT = Path(__file__).parents[3]
#: Every regions.yaml that somebody starts from.
FILES = (
    ROOT / "regions.yaml",
    ROOT / "examples" / "regions.yaml",
    ROOT / "tradewind" / "cli" / "starter.yaml",
    *sorted((ROOT / "deploy").rglob("regions.yaml")),
)
TWO = """\
version: 1
regions:
  eu: {redis: "redis://127.0.0.1:6401", residency: [eu]}
  us: {redis: "redis://127.0.0.1:6402", residency: [us]}
"""


def one(redis: str) -> str:
    return f"version: 1\nregions:\n  eu:\n    redis: {redis}\n"


def refused(text: str, env: dict[str, str] | None = None) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loads(text, "regions.yaml", env or {})
    return caught.value


def all_of(error: ConfigError) -> tuple[ConfigError, ...]:
    return error.errors if isinstance(error, ConfigErrors) else (error,)
