"""Which facts planning read: a view of facts that notes what is asked of it, and compares it later with new facts."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from kubexm.runner import Facts

__all__ = ["FactRead", "FactsTrace"]

_THERE = " is there"


@dataclass(frozen=True, slots=True)
class FactRead:
    """One thing planning asked of a host's facts, and the answer."""

    host: str
    path: str
    arguments: tuple[Any, ...] | None
    value: Any

    def again(self, facts: Facts) -> Any:
        """The answer these facts give; nothing where they do not go that far."""
        found: Any = facts
        for part in self.path.removesuffix(_THERE).split("."):
            if found is None:
                return None
            found = getattr(found, part)
        if self.path.endswith(_THERE):
            return found is not None
        return plain(found(*self.arguments) if self.arguments is not None else found)

    def __str__(self) -> str:
        call = "" if self.arguments is None else "(" + ", ".join(map(repr, self.arguments)) + ")"
        return f"{self.path}{call}"


class FactsTrace:
    """Everything planning read, once each, in order."""

    def __init__(self) -> None:
        self._reads: dict[tuple[str, str, str], FactRead] = {}

    def view(self, host: str, facts: Facts) -> Facts:
        """The facts, with each look at them noted."""
        return cast("Facts", _View(facts, "", self._noter(host)))

    def reads(self) -> tuple[FactRead, ...]:
        """What was read."""
        return tuple(self._reads.values())

    def _noter(self, host: str) -> Callable[[str, tuple[Any, ...] | None, Any], None]:
        def note(path: str, arguments: tuple[Any, ...] | None, value: Any) -> None:
            self._reads.setdefault((host, path, repr(arguments)), FactRead(host, path, arguments, plain(value)))

        return note


class _View:
    """Stands in for facts, or for a part of them."""

    __slots__ = ("_note", "_path", "_target")

    def __init__(self, target: object, path: str, note: Callable[[str, tuple[Any, ...] | None, Any], None]) -> None:
        self._target = target
        self._path = path
        self._note = note

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        path = f"{self._path}.{name}" if self._path else name
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            if _may_be_none(self._target, name):
                self._note(path + _THERE, None, True)
            return _View(value, path, self._note)
        if callable(value):
            return self._noted_call(path, value)
        if value is None:
            self._note(path + _THERE, None, False)
        else:
            self._note(path, None, value)
        return value

    def __eq__(self, other: object) -> bool:
        self._note_whole()
        return self._target == (other._target if isinstance(other, _View) else other)

    def __hash__(self) -> int:
        self._note_whole()
        return hash(self._target)

    def __repr__(self) -> str:
        self._note_whole()
        return repr(self._target)

    def _note_whole(self) -> None:
        if not self._path:
            raise AssertionError("planning looks at single facts, never at all of them: a plan would go stale at once")
        self._note(self._path, None, self._target)

    def _noted_call(self, path: str, method: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(method)

        def call(*arguments: Any, **named: Any) -> Any:
            bound = signature.bind(*arguments, **named)
            bound.apply_defaults()
            if bound.kwargs:
                raise AssertionError(f"{path} has keyword-only arguments, which cannot be saved with a plan")
            value = method(*bound.args)
            self._note(path, tuple(plain(argument) for argument in bound.args), value)
            return value

        return call


def _may_be_none(owner: Any, name: str) -> bool:
    return any(item.name == name and "None" in str(item.type) for item in dataclasses.fields(owner))


def plain(value: Any) -> Any:
    """JSON data that compares equal if the value does."""
    match value:
        case Enum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case set() | frozenset():
            return sorted((plain(item) for item in value), key=repr)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    return str(value)
