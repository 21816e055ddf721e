"""Frozen values to plain JSON data and back: what saved plans and journals are made of.

Decoding makes only dataclasses and enums, and of other packages only what is already imported, so that a plan from
elsewhere cannot bring code along. Secrets are refused: a plan holds their names.
"""

from __future__ import annotations

import base64
import importlib
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import PurePath, PurePosixPath
from typing import Any, TypeVar

from kubexm.errors import GraphError
from kubexm.redact import Secret

__all__ = ["decode", "encode"]

T = TypeVar("T")


def encode(value: Any) -> Any:  # noqa: C901 - one case for each kind of value
    """Plain JSON data; fields that hold their default are left out."""
    match value:
        case Enum():
            return {"$enum": _name(type(value)), "name": value.name}
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case PurePath():
            return {"$path": value.as_posix()}
        case tuple() | list():
            return [item if type(item) is str else encode(item) for item in value]  # hosts, mostly, and many
        case frozenset() | set():
            return {"$set": sorted((encode(item) for item in value), key=repr)}
        case Mapping():
            return {"$map": {_string(key): encode(item) for key, item in value.items()}}
        case Secret():
            raise GraphError("a plan never holds a secret itself", hint="put a SecretRef into the step")
    if is_dataclass(value) and not isinstance(value, type):
        data: dict[str, Any] = {"$": _name(type(value))}
        for item in fields(value):
            current = getattr(value, item.name)
            if item.default is not MISSING and current == item.default:
                continue
            if item.default_factory is not MISSING and current == item.default_factory():
                continue
            data[item.name] = encode(current)
        return data
    raise GraphError(f"{type(value).__name__} cannot be part of a plan: use a frozen dataclass of plain values")


def decode(data: Any, kind: type[T]) -> T:
    """The value that `encode` was given, which must be of this kind."""
    try:
        value = _decode(data)
    except (KeyError, TypeError, ValueError) as error:
        raise GraphError(f"cannot read this part of a plan: {error!r}") from error
    if not isinstance(value, kind):
        raise GraphError(f"expected {kind.__name__}, found {type(value).__name__}")
    return value


def _decode(data: Any) -> Any:
    match data:
        case list():
            return tuple(_decode(item) for item in data)
        case {"$bytes": str(text)}:
            return base64.b64decode(text, validate=True)
        case {"$path": str(text)}:
            return PurePosixPath(text)
        case {"$set": list(items)}:
            return frozenset(_decode(item) for item in items)
        case {"$map": dict(items)}:
            return {key: _decode(item) for key, item in items.items()}
        case {"$enum": str(name), "name": str(member)}:
            found = _named(name)
            if not issubclass(found, Enum):
                raise GraphError(f"{name} is no enum")
            return found[member]
        case {"$": str(name), **rest}:
            found = _named(name)
            if not is_dataclass(found):
                raise GraphError(f"{name} cannot be part of a plan")
            values = {str(key): _decode(item) for key, item in rest.items()}
            try:
                return found(**values)
            except TypeError as error:
                raise GraphError(f"{name} does not fit this version: {error}") from error
        case None | bool() | int() | float() | str():
            return data
    raise GraphError(f"cannot read this part of a plan: {str(data)[:80]}")


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _named(name: str) -> type:
    module_name, _, qualified = name.partition(":")
    module = sys.modules.get(module_name)
    if module_name.startswith("kubexm.") and "__" not in module_name:
        try:  # also if it is known: another thread may be half way through importing it
            module = importlib.import_module(module_name)
        except ImportError:
            module = None
    found: Any = module
    for part in qualified.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise GraphError(f"this plan needs {name}, which is not here", hint="import the module that defines it first")
    return found


def _string(key: object) -> str:
    if not isinstance(key, str):
        raise GraphError(f"the keys of a mapping in a plan are strings, not {type(key).__name__}")
    return key
