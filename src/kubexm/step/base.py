"""What a step is: a small frozen dataclass that names a state. `precheck` reads, `run` changes.

Steps are plain data until the engine calls them, so that plans can be saved, compared and read. Must not know the graph
they stand in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol, runtime_checkable

from kubexm.cache import Key
from kubexm.runtime import StepContext
from kubexm.step.resources import EVERYTHING, Resources

__all__ = ["Check", "Reversible", "Step", "Values", "step_kinds"]

Values = Mapping[Key[Any], Any]
_kinds: dict[str, type[Step]] = {}


def step_kinds() -> Mapping[str, type[Step]]:
    """Every step class that has been imported, by its full name."""
    return _kinds


@dataclass(frozen=True, slots=True)
class Check:
    """What a precheck found."""

    satisfied: bool | None
    """True: the state holds. False: it does not. None: nothing can be read back to tell."""
    values: Values = field(default_factory=dict)
    """The values the step produces, where they could be read."""
    reason: str = ""
    """Why it is not satisfied, in a few words."""
    diff: str = ""
    """What run would change, as a unified diff of contents where there are any. Never holds a secret."""

    @classmethod
    def unreadable(cls) -> Check:
        """For steps that leave nothing behind which could be read."""
        return _UNREADABLE


_UNREADABLE = Check(None)


class Step:
    """A state that (node, host) is to be in. Subclasses are frozen dataclasses with slots and keyword fields only."""

    __slots__ = ()

    settle: ClassVar[float] = 0.0
    """Seconds after `run` within which the state may still come about (services settle late)."""
    commands: ClassVar[int | None] = None
    """1: run is exactly one changing command, so that its receipt alone tells how it ended."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _kinds[cls.kind()] = cls

    @classmethod
    def kind(cls) -> str:
        """The class's full name, as saved in plans and journals."""
        return f"{cls.__module__}.{cls.__qualname__}"

    async def precheck(self, ctx: StepContext) -> Check:
        """Reads whether the state holds, and the values produced. Changes nothing."""
        raise NotImplementedError

    async def run(self, ctx: StepContext) -> Values | None:
        """Brings the state about, precheck not being satisfied; may return values that cannot be read back."""
        raise NotImplementedError

    def reads(self) -> Resources:
        """What precheck looks at."""
        return EVERYTHING

    def writes(self) -> Resources:
        """What run may change."""
        return EVERYTHING

    def produces(self) -> tuple[Key[Any], ...]:
        """The values this step hands on."""
        return ()

    def consumes(self) -> tuple[Key[Any], ...]:
        """The values this step needs before it can run: of this host for per-host keys."""
        return ()

    def gathers(self) -> tuple[Key[Any], ...]:
        """The per-host keys of which this step needs every host's value."""
        return ()

    def describe(self) -> str:
        """The state in a few words, for people."""
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", type(self).__name__).lower()
        for item in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, item.name)
            if isinstance(value, str) and value and "\n" not in value:
                return f"{name}: {value}"
        return name


@runtime_checkable
class Reversible(Protocol):
    """A step that can undo what its `run` changed in this run."""

    async def rollback(self, ctx: StepContext) -> None:
        """Puts things back as they were before `run`."""
        ...
