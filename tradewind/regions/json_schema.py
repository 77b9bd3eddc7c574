"""A JSON Schema of regions.yaml, for editors: generated from the models that the loader checks by.

    python -m tradewind.regions.json_schema > tradewind/regions/regions.schema.json

writes the copy that ships with the package (`published`). It says what one key may hold. What takes
a look at two keys (a region that is named and not there) or at a number behind a unit only the
loader says, so a file that fits the schema may still be refused by it.
"""

import ast
import inspect
import json
import sys
from collections.abc import Mapping
from importlib import resources
from itertools import pairwise
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from tradewind.regions import schema, units

# Language servers for YAML warn of newer ones (redhat-developer/yaml-language-server, issue 1112).
_DRAFT = "http://json-schema.org/draft-07/schema#"
_FILE = "regions.schema.json"
_DURATION, _SHARE = f"^{units.DURATION_PATTERN}$", f"^{units.SHARE_PATTERN}$"


def published() -> str:
    """Return the text of the schema that ships with the package."""
    return resources.files("tradewind.regions").joinpath(_FILE).read_text(encoding="utf-8")


def generated() -> str:
    """Return the text of the schema as the models have it now."""
    made = schema.File.model_json_schema(
        schema_generator=_Generator, ref_template="#/definitions/{model}"
    )
    told = _told()
    sections: dict[str, Any] = {
        name: _section(section, told[name]) for name, section in made.pop("$defs").items()
    }
    document = {
        "$schema": _DRAFT,
        "title": "regions.yaml",
        **_section(made, told["File"]),
        "definitions": sections,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


class _Generator(GenerateJsonSchema):
    """Writes defaults as the file spells them, and no null: the reader refuses empty values."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Leave out what is no default of a single key: its parts have their own."""
        made = super().default_schema(schema)
        given = made.pop("default", None)
        if given is None or given == "" or isinstance(given, dict | list):
            return made
        spelt = {_DURATION: units.duration_text, _SHARE: units.share_text}
        spell = spelt.get(made.get("pattern", ""))
        return {**made, "default": spell(given) if spell else given}

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Take `X | None` for X: what is not given is left out."""
        return self.generate_inner(schema["schema"])


def _section(made: dict[str, Any], told: Mapping[str, str]) -> dict[str, Any]:
    """Give one section the texts of its keys, and no titles: the keys say as much."""
    properties = {key: _key(value, told[key]) for key, value in made.get("properties", {}).items()}
    kept = {key: value for key, value in made.items() if key not in {"title", "properties"}}
    return {**kept, "properties": properties}


def _key(made: dict[str, Any], text: str) -> dict[str, Any]:
    bounds = made.get("description", "")
    kept = {key: value for key, value in made.items() if key not in {"title", "description"}}
    if "$ref" in kept:  # what stands beside one does not count in this draft
        kept = {"allOf": [kept]}
    return {"description": f"{text} {bounds}".strip(), **kept}


def _told() -> Mapping[str, Mapping[str, str]]:
    """By class of `schema` and key, the text that stands under the key."""
    return {
        part.name: {
            above.target.id: below.value.value
            for above, below in pairwise(part.body)
            if isinstance(above, ast.AnnAssign)
            and isinstance(above.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        }
        for part in ast.parse(inspect.getsource(schema)).body
        if isinstance(part, ast.ClassDef)
    }


if __name__ == "__main__":
    sys.stdout.write(generated())
