"""The JSON Schema of the user's file, for editors. It accepts the shapes the loader accepts; rules over several fields
are the loader's alone.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from kubexm.apis.v1alpha1.base import Model
from kubexm.apis.v1alpha1.cluster import Cluster

__all__ = ["SCHEMA_ID", "json_schema"]

SCHEMA_ID: Final = "https://kubexm.io/schemas/v1alpha1/cluster.json"


def json_schema() -> dict[str, Any]:
    """The schema, draft 2020-12."""
    schema = Cluster.model_json_schema(by_alias=True, mode="validation")
    definitions: dict[str, dict[str, Any]] = schema.pop("$defs")
    models = {model.__name__: model for model in _models(Model)}
    for name, definition in definitions.items():
        _finish(definition, models[name])
    _finish(schema, Cluster)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": SCHEMA_ID,
        **schema,
        "$defs": dict(sorted(definitions.items())),
    }


def _models(base: type[Model]) -> list[type[Model]]:
    return [base, *(found for sub in base.__subclasses__() for found in _models(sub))]


def _finish(definition: dict[str, Any], model: type[Model]) -> None:
    definition.pop("title", None)
    defaults = model.model_construct().model_dump(mode="json", exclude_none=True, warnings=False)
    own = [str(field.alias) for name, field in model.model_fields.items() if name in model.__annotations__]
    definition["properties"] = {
        alias: definition["properties"][alias] for alias in dict.fromkeys((*own, *definition["properties"]))
    }
    for alias, field in definition["properties"].items():
        field.pop("title", None)
        field.pop("default", None)
        # The defaults of a section stand at its own fields.
        if alias in defaults and not isinstance(defaults[alias], dict):
            field["default"] = defaults[alias]
        if alias in model.emptiable():
            _allow_null(field)


def _allow_null(field: dict[str, Any]) -> None:
    """An empty section, list or mapping is one with its defaults."""
    if "$ref" in field:
        field["anyOf"] = [{"$ref": field.pop("$ref")}, {"type": "null"}]
    elif "anyOf" in field:
        field["anyOf"] = [*field["anyOf"], {"type": "null"}]
    else:
        field["type"] = [field["type"], "null"]
