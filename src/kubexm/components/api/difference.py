"""What applying would change: the live object, cut down to what kubexm has a say in, against the manifest. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kubexm.components.api.documents import ManifestObject, Ref
from kubexm.components.api.objects import fields_owned
from kubexm.components.documents import yaml_text

__all__ = ["changes_of", "removal_of"]

_MOST_LINES = 2000


def changes_of(wanted: ManifestObject, live: Mapping[str, Any] | None) -> str:
    """What would change in one object, as a unified diff; the data of a Secret is hidden."""
    new = _lines(wanted.document, secret=wanted.secret)
    name = str(wanted.ref)
    if live is None:
        return _unified([], new, "/dev/null", name)
    shape = {key: value for key, value in live.items() if key != "status"}
    shape["metadata"] = {key: value for key, value in live["metadata"].items() if key != "managedFields"}
    owned = fields_owned(live["metadata"].get("managedFields") or ())
    now = _cut(shape, owned, wanted.document)
    given = wanted.document["metadata"]
    named = {key: given[key] for key in ("name", "namespace") if key in given}
    now |= {key: live.get(key) for key in ("apiVersion", "kind")}
    now["metadata"] = {**named, **now.get("metadata", {})}
    return _unified(_lines(_ordered(now, wanted.document), secret=wanted.secret), new, f"{name} (now)", name)


def removal_of(ref: Ref) -> str:
    """That an object would be removed."""
    return f"--- {ref} (now)\n+++ /dev/null\n@@ it left the manifests and is removed @@"


def _unified(old: Sequence[str], new: Sequence[str], origin: str, target: str) -> str:
    lines = list(difflib.unified_diff(old, new, origin, target, lineterm=""))
    rest = [f"… {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []
    return "\n".join((*lines[:_MOST_LINES], *rest))


def _lines(document: Mapping[str, Any], *, secret: bool) -> list[str]:
    return yaml_text(_hidden(document) if secret else document).splitlines()


def _hidden(document: Mapping[str, Any]) -> dict[str, Any]:
    shown = dict(document)
    for key in ("data", "stringData"):
        if isinstance(shown.get(key), Mapping):
            shown[key] = dict.fromkeys(shown[key], "(hidden)")
    return shown


def _cut(live: Any, owned: Mapping[str, Any], wanted: Any) -> Any:
    """What of a live value kubexm owns or wants."""
    if isinstance(live, Mapping) and (owned or isinstance(wanted, Mapping)):
        inner = wanted if isinstance(wanted, Mapping) else {}
        return {
            key: _cut(value, owned.get(f"f:{key}") or {}, inner.get(key))
            for key, value in live.items()
            if f"f:{key}" in owned or key in inner
        }
    if isinstance(live, list) and owned:
        return _cut_list(live, owned, wanted if isinstance(wanted, list) else [])
    return live


def _cut_list(live: list[Any], owned: Mapping[str, Any], wanted: list[Any]) -> list[Any]:
    """Of a list whose entries have owners of their own: those that are ours, or that we want."""
    keyed = {key[2:]: fields for key, fields in owned.items() if key.startswith("k:")}
    if not keyed:
        values = [key[2:] for key in owned if key.startswith("v:")]
        return [item for item in live if not values or json.dumps(item) in values or item in wanted]
    names = sorted({name for key in keyed for name in json.loads(key)})
    found = []
    for item in live:
        if not isinstance(item, Mapping):
            continue
        fields = next((value for key, value in keyed.items() if _fits(item, json.loads(key))), None)
        twin = next((one for one in wanted if isinstance(one, Mapping) and _same(item, one, names)), None)
        if fields is not None or twin is not None:
            found.append(_cut(item, fields or {}, twin))
    return found


def _fits(item: Mapping[str, Any], key: Mapping[str, Any]) -> bool:
    return all(item.get(name) == value for name, value in key.items())


def _same(item: Mapping[str, Any], wanted: Mapping[str, Any], names: Sequence[str]) -> bool:
    return any(name in wanted for name in names) and all(
        item.get(name) == wanted[name] for name in names if name in wanted
    )


def _ordered(value: Any, like: Any) -> Any:
    """The same with the keys in the order the manifest has them, so that a diff shows no more than what changes."""
    if isinstance(value, Mapping):
        inner = like if isinstance(like, Mapping) else {}
        first = [key for key in inner if key in value]
        rest = [key for key in value if key not in inner]
        return {key: _ordered(value[key], inner.get(key)) for key in (*first, *rest)}
    if isinstance(value, list):
        others = like if isinstance(like, list) else []
        return [_ordered(item, others[index] if index < len(others) else None) for index, item in enumerate(value)]
    return value
