"""What may be written where: the fields of the model, found by path. Must not know any file."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from kubexm.apis.v1alpha1 import Cluster, Model, SecretSource
from kubexm.config.document import Path

__all__ = ["PLAIN_KEYS", "SECRET_KEYS", "elsewhere", "every_field", "field_at", "model_at", "near_field"]


def _unwrap(annotation: Any) -> Any:
    """The type itself, without Annotated and without `| None`."""
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation = get_args(annotation)[0]
        elif origin in {Union, UnionType}:
            parts = [part for part in get_args(annotation) if part is not type(None)]
            if len(parts) != 1:
                return annotation
            annotation = parts[0]
        else:
            return annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Model)


def _field(model: type[Model], key: str) -> FieldInfo | None:
    return next((field for field in model.model_fields.values() if field.alias == key), None)


def _inside(annotation: Any, part: str | int) -> Any:
    """The type of a member; None if the model says nothing about it."""
    annotation = _unwrap(annotation)
    if _is_model(annotation):
        field = _field(annotation, str(part))
        return field.annotation if field is not None else None
    arguments = get_args(annotation)
    if get_origin(annotation) is tuple and (isinstance(part, int) or part == "*"):
        return arguments[0]
    if get_origin(annotation) is dict and isinstance(part, str):
        return arguments[1]
    return None


def model_at(path: Path) -> type[Model] | None:
    """The model whose fields may be written at this path."""
    annotation: Any = Cluster
    for part in path:
        annotation = _inside(annotation, part)
    annotation = _unwrap(annotation)
    return annotation if _is_model(annotation) else None


def field_at(path: Path) -> FieldInfo | None:
    """The field this path names, if its parent is a model."""
    parent = model_at(path[:-1]) if path else None
    return _field(parent, str(path[-1])) if parent is not None else None


def near_field(path: Path) -> str | None:
    """The valid field most like the last part of the path."""
    parent = model_at(path[:-1])
    if parent is None:
        return None
    key = str(path[-1])
    aliases = {str(field.alias).lower(): str(field.alias) for field in parent.model_fields.values()}
    plain = key.lower().replace("_", "").replace("-", "")
    if plain in aliases:
        return aliases[plain]
    near = get_close_matches(plain, aliases, 1, 0.7)
    if near:
        return aliases[near[0]]
    ends = [
        alias
        for lower, alias in aliases.items()
        if len(plain) >= 4 and (lower.endswith(plain) or plain.endswith(lower))
    ]
    return ends[0] if len(ends) == 1 else None


def _walk(model: type[Model], path: Path, seen: frozenset[type[Model]]) -> Iterator[tuple[Path, Any]]:
    for field in model.model_fields.values():
        annotation, inner = _unwrap(field.annotation), (*path, str(field.alias))
        yield inner, annotation
        while get_origin(annotation) in {tuple, dict}:
            annotation = _unwrap(get_args(annotation)[0 if get_origin(annotation) is tuple else 1])
            inner = (*inner, "*")
        if _is_model(annotation) and annotation not in seen:
            yield from _walk(annotation, inner, seen | {annotation})


def every_field() -> Iterator[tuple[Path, Any]]:
    """Every field of the model with its type, in order; a member of a list or mapping is `*`."""
    return _walk(Cluster, (), frozenset({Cluster}))


@cache
def _everywhere() -> dict[str, tuple[Path, ...]]:
    places: dict[str, dict[Path, None]] = {}
    for path, _ in every_field():
        places.setdefault(str(path[-1]), {})[path] = None
    return {alias: tuple(paths) for alias, paths in places.items()}


def elsewhere(key: str) -> Path | None:
    """Where a key that is unknown in its place does belong, if there is one such place only."""
    near = get_close_matches(key, _everywhere(), 1, 0.8)
    places = _everywhere()[near[0]] if near else ()
    return places[0] if len(places) == 1 else None


def _keys(*, secret: bool) -> frozenset[str]:
    every = [(str(path[-1]), kind) for path, kind in every_field()]
    secrets = {alias for alias, kind in every if isinstance(kind, type) and issubclass(kind, SecretSource)}
    return frozenset(secrets if secret else {alias for alias, _ in every} - secrets)


SECRET_KEYS = _keys(secret=True)
PLAIN_KEYS = _keys(secret=False)
