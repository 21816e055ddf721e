"""Command-line arguments and feature gates of Kubernetes components, as YAML mappings. Knows no component."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, StrictBool

from kubexm.apis.v1alpha1.base import invalid, schema, shown

__all__ = ["Args", "FeatureGates"]


def _argument(name: str, content: object) -> str:
    match content:
        case bool():
            return str(content).lower()
        case str() if re.search(r"[\0-\x08\n-\x1f\x7f]", content):
            raise invalid(f"the argument `{name}` holds a line break or a control character", "write it on one line")
        case int() | float() | str():
            return str(content)
        case _:
            raise invalid(f"the argument `{name}` must be text, found {shown(content)}", f'write `{name}: "…"`')


def _args(value: object) -> dict[str, tuple[str, ...]]:
    """Names without dashes; a list repeats the argument; numbers and booleans are taken as their text."""
    if not isinstance(value, dict):
        raise invalid(f"expected a mapping of arguments, found {shown(value)}", 'write it like `{v: "2"}`')
    args: dict[str, tuple[str, ...]] = {}
    for name, content in value.items():
        if re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]*", name) is None:
            bare = name.lstrip("-").partition("=")[0]
            raise invalid(f"{shown(name)} is not the name of an argument", f"did you mean `{bare}`?" if bare else "")
        if isinstance(content, list | tuple):
            if not content:
                raise invalid(f"the argument `{name}` has an empty list", "give it a value or remove it")
            args[name] = tuple(_argument(name, part) for part in content)
        else:
            args[name] = (_argument(name, content),)
    return args


def _plain(value: dict[str, tuple[str, ...]]) -> dict[str, str | list[str]]:
    return {name: parts[0] if len(parts) == 1 else list(parts) for name, parts in value.items()}


def _gates(value: object) -> object:
    for name in value if isinstance(value, dict) else ():
        if re.fullmatch(r"[A-Z][A-Za-z0-9]*", name) is None:
            raise invalid(f"{shown(name)} is not the name of a feature gate", "write it like `NodeSwap: true`")
    return value


_SCALAR = {"type": ["string", "integer", "number", "boolean"]}

Args = Annotated[
    dict[str, tuple[str, ...]],
    BeforeValidator(_args),
    PlainSerializer(_plain),
    schema(
        "arguments",
        "object",
        propertyNames={"pattern": "^[A-Za-z][A-Za-z0-9._-]*$"},
        additionalProperties={"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR, "minItems": 1}]},
    ),
]
"""Arguments by name; each has one value or more, in order."""

FeatureGates = Annotated[
    dict[str, StrictBool],
    BeforeValidator(_gates),
    schema(
        "mapping to `true`, `false`",
        "object",
        propertyNames={"pattern": "^[A-Z][A-Za-z0-9]*$"},
        additionalProperties={"type": "boolean"},
    ),
]
