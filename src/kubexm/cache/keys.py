"""Typed names of the values that steps hand to each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

__all__ = ["RUN_CHANGED", "Key", "Scope"]

T = TypeVar("T")


class Scope(IntEnum):
    """Who can see a value: its node, its task, its module, or the whole pipeline."""

    STEP = 0
    TASK = 1
    MODULE = 2
    PIPELINE = 3


@dataclass(frozen=True)  # no slots: with them `Key[str]("name")` cannot be written
class Key(Generic[T]):
    """The name and kind of a value. The value is plain JSON data, or a `Secret` if `secret` is set."""

    name: str
    per_host: bool = False
    """One value for each host rather than one for the cluster."""
    secret: bool = False
    """Kept 0600 in the work directory; everything else sees its name and a keyed digest."""
    expires: bool = False
    """Never journalled: a later resume produces it anew."""
    scope: Scope = Scope.PIPELINE

    def __str__(self) -> str:
        return self.name


RUN_CHANGED: Key[bool] = Key("run-changed")
"""Set by the engine itself from the moment this run began, or in a dry run would begin, to change something.

For steps that prove what others did: they ask `ctx.has`, late, and what they prove must also leave a note of its own,
since this does not outlive the run.
"""
