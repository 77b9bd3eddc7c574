"""What values of a section may be, and what an editor is told of them beside."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict, JsonValue

from tradewind.regions.units import LABEL_PATTERN, Duration, Share

Short = Annotated[int, Duration("1ms", "1h")]
Long = Annotated[int, Duration("1ms", "365d")]
Patience = Annotated[int, Duration("0s", "30d")]  # 0s: at once
Factor = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Percent = Annotated[float, Share()]
RoundTrip = Annotated[float, Duration("0ms", "1m", whole=False)]

LABEL: JsonDict = {"pattern": f"^{LABEL_PATTERN}$"}
BY_LABEL = Field(json_schema_extra={"propertyNames": LABEL})
UNIQUE: JsonDict = {"uniqueItems": True}

Names = Annotated[
    list[Annotated[str, Field(json_schema_extra=LABEL)]],
    Field(min_length=1, json_schema_extra=UNIQUE),
]
Globs = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class Section(BaseModel):
    """Base of every mapping in the file: only its own keys, only the right types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


def forms(given: Mapping[str, Sequence[str]]) -> list[JsonValue]:
    """Say to an editor that exactly one key of `given` is there, and what goes with it alone."""
    keys = {form: {form, *further} for form, further in given.items()}
    return [
        {
            "required": [form],
            "properties": {
                name: False
                for other, names in keys.items()
                if other != form
                for name in sorted(names)
            },
        }
        for form in keys
    ]
