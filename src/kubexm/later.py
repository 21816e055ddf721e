"""Names of a package that are imported when they are first used: most of what starting a command takes is importing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["later"]


def later(
    package: str, parts: Mapping[str, Sequence[str]], *, before: Callable[[], None] | None = None
) -> Callable[[str], Any]:
    """The package's `__getattr__`: finds the names of each part in that module. `before`: what importing one needs."""
    places = {name: part for part, names in parts.items() for name in names}

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if before is not None:
            before()
        found = getattr(import_module(places[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return find
