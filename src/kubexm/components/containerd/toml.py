"""TOML as containerd reads it, from plain data: tables sorted, one way to write each value. Knows no containerd."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from kubexm.errors import PlanError

__all__ = ["merged", "to_toml"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(data: Mapping[str, Any]) -> str:
    """The document; TOML has no way to say nothing, so keys without a value are left out."""
    return "\n".join(_table(data, ())).strip("\n") + "\n"


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both, table by table; where both say something, `over` wins. Lists are replaced whole."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merged(old, value) if both else value  # type: ignore[arg-type]  # both are mappings
    return result


def _table(data: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    plain = {key: value for key, value in data.items() if not _is_table(value) and value is not None}
    tables = {key: value for key, value in data.items() if _is_table(value)}
    lines: list[str] = []
    if path and (plain or not tables):
        lines += ["", f"[{'.'.join(map(_key, path))}]"]
    lines += [f"{_key(key)} = {_value(value, (*path, key))}" for key, value in plain.items()]
    for key in sorted(tables):
        lines += _table(tables[key], (*path, key))
    return lines


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _value(value: Any, path: tuple[str, ...]) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str():
            return _string(value)
        case list() | tuple():
            return "[" + ", ".join(_value(item, path) for item in value) + "]"
        case Mapping():
            return "{" + ", ".join(f"{_key(key)} = {_value(item, path)}" for key, item in value.items()) + "}"
    raise PlanError(
        f"{'.'.join(path)}: {value!r} cannot stand in a TOML file", hint="use text, numbers, true, false, lists or maps"
    )


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
