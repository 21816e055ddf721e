"""Frozen dataclasses to plain JSON types and back, strictly. Must not know which dataclasses."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from kubexm.errors import KubexmError

__all__ = ["decode", "encode"]

T = TypeVar("T")


def encode(value: object) -> object:
    """The value as dicts, lists, strings, numbers, booleans and None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return value


def decode(kind: type[T], data: object, place: str = "facts") -> T:
    """A value of this type, or an error that names the place where the data does not fit."""
    return typing.cast(T, _decode(kind, data, place))


def _decode(kind: Any, data: object, place: str) -> object:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if data is None:
            return None
        return _decode(next(a for a in args if a is not type(None)), data, place)
    if origin is tuple:
        if not isinstance(data, list):
            raise _misfit(place, "a list", data)
        return tuple(_decode(args[0], item, f"{place}[{i}]") for i, item in enumerate(data))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise _misfit(place, "an object", data)
        return {str(key): _decode(args[1], item, f"{place}.{key}") for key, item in data.items()}
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(typing.cast(type, kind), data, place)
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise _misfit(place, kind.__name__, data)
    return data


def _decode_dataclass(kind: type, data: object, place: str) -> object:
    if not isinstance(data, Mapping):
        raise _misfit(place, "an object", data)
    hints, fields = _shape(kind)
    if unknown := sorted(str(key) for key in data if key not in fields):
        raise _misfit(f"{place}.{unknown[0]}", "nothing of that name", data[unknown[0]])
    if missing := sorted(name for name, required in fields.items() if required and name not in data):
        raise _misfit(f"{place}.{missing[0]}", "a value", None)
    made: object = kind(
        **{name: _decode(hints[name], data[name], f"{place}.{name}") for name in fields if name in data}
    )
    return made


@cache
def _shape(kind: type) -> tuple[dict[str, Any], dict[str, bool]]:
    def required(field: dataclasses.Field[Any]) -> bool:
        return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING

    return typing.get_type_hints(kind), {f.name: required(f) for f in dataclasses.fields(kind)}


def _misfit(place: str, expected: str, data: object) -> KubexmError:
    return KubexmError(
        f"{place}: expected {expected}, found {data!r}",
        hint="These facts were saved by another version of kubexm or edited: gather them again.",
    )
