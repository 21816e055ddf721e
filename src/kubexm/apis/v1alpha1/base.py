"""What every part of the model shares: key names, strictness, and what an edit of a field may do.

Must not know any particular field. Rules that look at more than one field are in `rules`, so that a wrong field never
hides another problem.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

__all__ = [
    "EDIT_KEY",
    "EMPTY",
    "OUTSIDE_KEY",
    "TYPE_KEY",
    "EditKind",
    "Model",
    "Outside",
    "camel",
    "fixed",
    "invalid",
    "live",
    "schema",
    "section",
    "shown",
    "upgrade",
]

EDIT_KEY: Final = "x-kubexm-edit"
OUTSIDE_KEY: Final = "x-kubexm-outside-guard"
TYPE_KEY: Final = "x-kubexm-type"

EMPTY: Final[dict[str, Any]] = {}
"""The default of mappings; pydantic gives every model a copy."""

_ACRONYMS: Final = {"cidr": "CIDR", "cpu": "CPU", "sans": "SANs"}


class EditKind(StrEnum):
    """What may be done about an edit of cluster.yaml once the cluster exists."""

    LIVE = "live"
    """Applied by running create again."""
    UPGRADE = "upgrade"
    """For an upgrade of the cluster; refused as long as kubexm has none."""
    FIXED = "fixed"
    """Refused, with old and new value."""
    ADDED = "added"
    """A host or a role of a host that is new: it joins."""
    REMOVED = "removed"
    """A host or a role of a host that is gone from the file: reported, never touched."""


class Outside(StrEnum):
    """Why a field is outside the hash that guards a resume."""

    CONNECTION = "connection"
    SECRET = "secret"  # noqa: S105 - the name of a kind of field
    ASSETS = "assets"


def camel(name: str) -> str:
    """The YAML key of a Python field: `pod_cidr` is `podCIDR`."""
    first, *rest = name.split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


class Model(BaseModel):
    """A part of the user's file: closed, immutable, camelCase outside and snake_case inside."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
    )

    _emptiable: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls._emptiable = frozenset(
            str(field.alias)
            for field in cls.model_fields.values()
            if isinstance(field.default, Model) or (isinstance(field.default, tuple | dict) and not field.default)
        )

    @classmethod
    def emptiable(cls) -> frozenset[str]:
        """Keys that may stand with nothing after them."""
        return cls._emptiable

    @model_validator(mode="before")
    @classmethod
    def _empty_is_default(cls, data: Any) -> Any:
        """A section, list or mapping with nothing under it (all commented out, say) has its defaults."""
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None or key not in cls._emptiable}


def _marked(kind: EditKind, text: str, outside: Outside | None, more: dict[str, Any]) -> Any:
    extra: dict[str, Any] = {EDIT_KEY: kind.value}
    if outside is not None:
        extra[OUTSIDE_KEY] = outside.value
    return Field(description=text, json_schema_extra=extra, **more)


def live(text: str, *, outside: Outside | None = None, **more: Any) -> Any:
    """A field whose edits are applied by running create again."""
    return _marked(EditKind.LIVE, text, outside, more)


def upgrade(text: str, **more: Any) -> Any:
    """A field whose edits are an upgrade of the cluster."""
    return _marked(EditKind.UPGRADE, text, None, more)


def fixed(text: str, *, outside: Outside | None = None, **more: Any) -> Any:
    """A field that cannot be edited once the cluster exists."""
    return _marked(EditKind.FIXED, text, outside, more)


def section(text: str) -> Any:
    """A field that holds a model; the fields of that model carry the marks."""
    return Field(description=text)


def schema(kind: str, form: str | list[str] = "string", **more: Any) -> WithJsonSchema:
    """The JSON Schema of a type of ours: what it is called in the documentation, its JSON type, and its limits."""
    return WithJsonSchema({"type": form, TYPE_KEY: kind, **more})


def invalid(message: str, hint: str = "") -> PydanticCustomError:
    """What a validator raises: a sentence for the user, and what to write instead."""
    return PydanticCustomError("kubexm", "{message}", {"message": message, "hint": hint})


def shown(value: object) -> str:
    """A value as an error message speaks of it; never called for secrets."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"`{str(value).lower()}`"
        case int() | float():
            return f"the number `{value}`"
        case str():
            return f"`{value if len(value) <= 80 else value[:79] + '…'}`" if value else "an empty text"
        case list() | tuple():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return f"`{value}`"
