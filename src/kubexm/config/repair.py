"""What is left of a file once its wrong fields are taken out, so that the other rules can still be checked.

Lists keep the original index of each member, since findings must point at the file as it was written.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kubexm.apis.v1alpha1 import Cluster
from kubexm.config.document import Path
from kubexm.config.fields import field_at

__all__ = ["Remains", "salvage"]

_ROUNDS: Final = 8
_STAND_INS: Final[dict[Path, Any]] = {
    ("metadata",): {"name": "unnamed"},
    ("spec", "hosts"): [],
    ("spec", "roleGroups"): {},
}

_Items = list[tuple[int, Any]]


class Remains:
    """A cluster made from what was right, what had to go, and the way back to the original places."""

    def __init__(self, cluster: Cluster, damaged: frozenset[Path], tree: Any) -> None:
        self.cluster = cluster
        self.damaged = damaged
        self._tree = tree

    def original(self, path: Path) -> Path:
        """The place in the file that a place in the repaired data comes from."""
        return _original(self._tree, path)


def salvage(data: Any) -> Remains | None:
    """The cluster without its wrong fields, or None if nothing sensible is left."""
    if not isinstance(data, dict) or not isinstance(data.get("spec"), dict):
        return None
    tree, damaged = _tree(data), set[Path]()
    for _ in range(_ROUNDS):
        try:
            cluster = Cluster.model_validate(_plain(tree), by_alias=True, by_name=False)
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_input=False):
                removed = _remove(tree, detail)
                if removed is None:
                    return None
                damaged.add(removed)
        else:
            return Remains(cluster, frozenset(damaged), tree)
    return None


def _tree(value: Any) -> Any:
    match value:
        case dict():
            return {key: _tree(part) for key, part in value.items()}
        case list():
            return _List(list(enumerate(map(_tree, value))))
        case _:
            return value


class _List:
    """A list whose members remember where they were."""

    __slots__ = ("items",)

    def __init__(self, items: _Items) -> None:
        self.items = items


def _plain(tree: Any) -> Any:
    match tree:
        case dict():
            return {key: _plain(part) for key, part in tree.items()}
        case _List():
            return [_plain(part) for _, part in tree.items]
        case _:
            return tree


def _original(tree: Any, path: Path) -> Path:
    result: list[str | int] = []
    for part in path:
        if isinstance(tree, _List) and isinstance(part, int) and part < len(tree.items):
            index, tree = tree.items[part]
            result.append(index)
        else:
            tree = tree.get(part) if isinstance(tree, dict) else None
            result.append(part)
    return tuple(result)


def _at(tree: Any, path: Path) -> Any:
    for part in path:
        if isinstance(tree, _List):
            tree = dict(tree.items).get(part) if isinstance(part, int) else None
        else:
            tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def _remove(tree: Any, detail: ErrorDetails) -> Path | None:
    """Takes out the smallest part that can go: an optional field, a member of a list; or puts in a stand-in."""
    path: Path = _original(tree, tuple(part for part in detail["loc"] if part != "[key]"))
    while path:
        if path in _STAND_INS:
            _at(tree, path[:-1])[path[-1]] = _tree(_STAND_INS[path])
            return path
        parent = _at(tree, path[:-1])
        if isinstance(parent, _List):
            parent.items[:] = [(index, part) for index, part in parent.items if index != path[-1]]
            return path
        if isinstance(parent, dict):
            field = field_at(path)
            if field is None or not field.is_required():
                parent.pop(path[-1], None)
                return path
        path = path[:-1]
    return None
