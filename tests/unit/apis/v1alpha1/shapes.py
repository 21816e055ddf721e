"""A small JSON Schema validator: just the keywords the schema of cluster.yaml uses, and an error for any other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_ANNOTATIONS = {"$schema", "$id", "$defs", "description", "default", "writeOnly"}
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


class Shapes:
    """One schema, and what it accepts."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema

    def accepts(self, value: Any) -> bool:
        """Whether the whole schema accepts the value."""
        return self._ok(self._schema, value)

    def _ok(self, schema: Any, value: Any) -> bool:
        if isinstance(schema, bool):
            return schema
        return all(
            self._keyword(schema, keyword, value)
            for keyword in schema
            if keyword not in _ANNOTATIONS and not keyword.startswith("x-kubexm-")
        )

    def _keyword(self, schema: dict[str, Any], keyword: str, value: Any) -> bool:  # noqa: C901 - a table in code
        wanted = schema[keyword]
        match keyword:
            case "$ref":
                return self._ok(self._schema["$defs"][wanted.removeprefix("#/$defs/")], value)
            case "anyOf":
                return any(self._ok(choice, value) for choice in wanted)
            case "type":
                return any(_TYPES[kind](value) for kind in ([wanted] if isinstance(wanted, str) else wanted))
            case "const":
                return bool(value == wanted) and type(value) is type(wanted)
            case "enum":
                return value in wanted
            case "pattern":
                return not isinstance(value, str) or re.search(wanted, value) is not None
            case "minLength" | "maxLength":
                return not isinstance(value, str) or (
                    len(value) >= wanted if keyword == "minLength" else len(value) <= wanted
                )
            case "minimum" | "maximum":
                number = isinstance(value, int | float) and not isinstance(value, bool)
                return not number or (value >= wanted if keyword == "minimum" else value <= wanted)
            case "minItems":
                return not isinstance(value, list) or len(value) >= wanted
            case "items":
                return not isinstance(value, list) or all(self._ok(wanted, item) for item in value)
            case "required":
                return not isinstance(value, dict) or all(key in value for key in wanted)
            case "properties":
                return not isinstance(value, dict) or all(
                    self._ok(wanted[key], value[key]) for key in value if key in wanted
                )
            case "propertyNames":
                return not isinstance(value, dict) or all(self._ok(wanted, key) for key in value)
            case "additionalProperties":
                known = schema.get("properties", {})
                return not isinstance(value, dict) or all(
                    self._ok(wanted, value[key]) for key in value if key not in known
                )
            case _:
                raise AssertionError(f"the schema uses a keyword this validator does not know: {keyword}")
