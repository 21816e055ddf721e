"""From pydantic's errors to sentences for the user: what is wrong, and the nearest valid choice."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kubexm.apis.v1alpha1.base import shown
from kubexm.apis.v1alpha1.rules import dotted
from kubexm.config.document import Document, Path
from kubexm.config.fields import elsewhere, model_at, near_field

__all__ = ["Fault", "faults"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One wrong field."""

    path: Path
    message: str
    hint: str = ""
    at_key: bool = False
    """Whether the key is wrong, not its value."""
    unknown: bool = False
    meant: Path | None = None
    """The field that an unknown one was most likely meant to be."""


def faults(error: ValidationError, document: Document) -> list[Fault]:
    """Every fault in the order pydantic found them; one cause is reported once."""
    found = [(detail["type"], _fault(detail, document)) for detail in error.errors(include_url=False)]
    misspelt = {fault.meant for _, fault in found}
    complained = {complaint.path for complaint in document.complaints}
    return [
        fault
        for kind, fault in found
        if not (kind == "missing" and fault.path in misspelt) and (fault.unknown or fault.path not in complained)
    ]


def _fault(detail: ErrorDetails, document: Document) -> Fault:
    path: Path = tuple(part for part in detail["loc"] if part != "[key]")
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(path)
    if kind == "missing":
        return Fault(path=path, message="this field is required", hint=_required(path))
    if kind == "kubexm":
        return Fault(path=path, message=_as_written(str(context["message"]), path, document), hint=str(context["hint"]))
    value = _Written(detail["input"], document.raw.get(path), path)
    if value.value is None:
        return Fault(path=path, message="there is no value", hint="write one, or remove the line")
    message, hint = _explain(kind, value, context)
    return Fault(path=path, message=message or detail["msg"], hint=hint)


def _as_written(message: str, path: Path, document: Document) -> str:
    """`1.30` in place of the number 1.3 that YAML makes of it."""
    raw = document.raw.get(path)
    if raw is None or not re.fullmatch(r"[-+.\w]+", raw):
        return message
    return re.sub(r"the number `[^`]*`", f"the number `{raw}`", message)


@dataclass(frozen=True, slots=True)
class _Written:
    value: Any
    raw: str | None
    path: Path

    def __str__(self) -> str:
        if self.raw is not None and isinstance(self.value, int | float) and not isinstance(self.value, bool):
            return f"the number `{self.raw}`"
        return shown(self.value)

    @property
    def text(self) -> str:
        return self.raw if self.raw is not None else str(self.value)


def _unknown(path: Path) -> Fault:
    key = path[-1]
    near, there = near_field(path), None
    if near is not None:
        hint = f"did you mean `{near}`?"
    elif (there := elsewhere(str(key))) is not None:
        hint = f"`{there[-1]}` belongs under `{dotted(there[:-1])}`" if there[1:] else f"`{key}` belongs at the top"
    else:
        parent = model_at(path[:-1])
        names = [str(field.alias) for field in parent.model_fields.values()] if parent is not None else []
        hint = f"valid here: {', '.join(names)}"
    meant = (*path[:-1], near) if near is not None else there
    return Fault(path=path, message=f"unknown field `{key}`", hint=hint, at_key=True, unknown=True, meant=meant)


def _required(path: Path) -> str:
    match path:
        case ("metadata", *_):
            return "write `metadata: {name: my-cluster}`"
        case ("spec", "hosts"):
            return "list at least one host with a name and an address"
        case ("spec", "roleGroups"):
            return "say which hosts are etcd, controlPlane and worker"
        case _:
            return f"add `{path[-1]}: …`"


def _mapping(value: _Written, _: Mapping[str, Any]) -> tuple[str, str]:
    # Text in place of a mapping may be anything, also a secret: say what it is, not what it says.
    found = "text" if isinstance(value.value, str) else str(value)
    return f"expected a mapping, found {found}", "write its fields below it, each as `name: value`"


def _list(value: _Written, _: Mapping[str, Any]) -> tuple[str, str]:
    plain = isinstance(value.value, str | int) and "\n" not in value.text and model_at((*value.path, 0)) is None
    return f"expected a list, found {value}", f"write `[{value.text}]`" if plain else "write each member as `- …`"


def _text(value: _Written, _: Mapping[str, Any]) -> tuple[str, str]:
    scalar = not isinstance(value.value, list | dict)
    return f"expected text, found {value}", f'put it in quotes: `"{value.text}"`' if scalar else ""


def _whole(value: _Written, _: Mapping[str, Any]) -> tuple[str, str]:
    bare = re.fullmatch(r"[0-9]{1,18}", value.text) if isinstance(value.value, str) else None
    found = f"the text {value}" if isinstance(value.value, str) else str(value)
    return f"expected a whole number, found {found}", "write it without quotes" if bare else ""


def _bool(value: _Written, _: Mapping[str, Any]) -> tuple[str, str]:
    meant = {
        "yes": "true",
        "on": "true",
        "1": "true",
        "y": "true",
        "no": "false",
        "off": "false",
        "0": "false",
        "n": "false",
    }
    text = value.text.lower()
    near = meant.get(text) or ("true" if text == "true" else "false" if text == "false" else None)
    return f"expected true or false, found {value}", f"did you mean `{near}`?" if near else ""


def _choice(value: _Written, context: Mapping[str, Any]) -> tuple[str, str]:
    choices = re.findall(r"'([^']*)'", str(context.get("expected", ""))) or [str(context.get("expected", "")).lower()]
    lower = {choice.lower(): choice for choice in choices}
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", value.text).lower()
    near = get_close_matches(plain, lower, 1, 0.6) or get_close_matches(value.text.lower(), lower, 1, 0.6)
    what = f"expected `{choices[0]}`" if len(choices) == 1 else f"expected one of {', '.join(choices)}"
    return f"{what}; found {value}", f"did you mean `{lower[near[0]]}`?" if near else ""


def _bound(word: str, key: str) -> Callable[[_Written, Mapping[str, Any]], tuple[str, str]]:
    def explain(value: _Written, context: Mapping[str, Any]) -> tuple[str, str]:
        return f"must be {word} {context[key]}, found {value}", ""

    return explain


def _empty(_: _Written, __: Mapping[str, Any]) -> tuple[str, str]:
    return "this must not be empty", ""


_EXPLAIN: Mapping[str, Callable[[_Written, Mapping[str, Any]], tuple[str, str]]] = {
    "model_type": _mapping,
    "model_attributes_type": _mapping,
    "dict_type": _mapping,
    "tuple_type": _list,
    "list_type": _list,
    "string_type": _text,
    "int_type": _whole,
    "int_parsing": _whole,
    "int_from_float": _whole,
    "bool_type": _bool,
    "bool_parsing": _bool,
    "literal_error": _choice,
    "greater_than_equal": _bound("at least", "ge"),
    "less_than_equal": _bound("at most", "le"),
    "string_too_short": _empty,
}


def _explain(kind: str, value: _Written, context: Mapping[str, Any]) -> tuple[str, str]:
    explain = _EXPLAIN.get(kind)
    return explain(value, context) if explain is not None else ("", "")
