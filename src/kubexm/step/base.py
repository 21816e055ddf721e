"""What a step is: a small frozen dataclass that names a state. `precheck` reads, `run` changes.

Steps are plain data until the engine calls them, so that plans can be saved, compared and read. Must not know the graph
they stand in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from kubexm.cache import Key
from kubexm.redact import SecretRef
from kubexm.runtime import LocalFile, StepContext
from kubexm.step.resources import EVERYTHING, Resources

__all__ = ["Check", "Reversible", "Step", "Values", "step_kinds"]

Values = Mapping[Key[Any], Any]
_kinds: dict[str, type[Step]] = {}
_SECRET = "secret:"  # noqa: S105 - how such resources begin


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

    def may_use(self) -> tuple[Key[Any], ...]:
        """The keys whose values, of every host, it uses as far as they are there; it waits for none of them."""
        return ()

    def secrets(self, host: str) -> tuple[str, ...]:
        """The names of the secrets it uses when it acts from this host: `NAME*` stands for all that begin so.

        These are the ones in its fields and among the resources it reads and writes; a step that needs fewer says so.
        """
        touched = [name for name in (*self.reads(), *self.writes()) if name.startswith(_SECRET)]
        return tuple(dict.fromkeys([*_secret_names(self), *sorted(name.removeprefix(_SECRET) for name in touched)]))

    def sources(self) -> tuple[LocalFile, ...]:
        """The local files it reads, through `StepContext.source`."""
        return ()

    def describe(self) -> str:
        """The state in a few words, for people."""
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", type(self).__name__).lower()
        for item in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, item.name)
            if isinstance(value, str) and value and "\n" not in value:
                return f"{name}: {value}"
        return name


def _secret_names(value: object) -> Iterator[str]:
    """The names of all secrets in a value of a plan."""
    if isinstance(value, SecretRef):
        yield value.name
    elif isinstance(value, tuple | list | frozenset):
        for item in value:
            yield from _secret_names(item)
    elif isinstance(value, Mapping):
        yield from _secret_names(tuple(value.values()))
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            yield from _secret_names(getattr(value, one.name))


@runtime_checkable
class Reversible(Protocol):
    """A step that can undo what its `run` changed in this run."""

    async def rollback(self, ctx: StepContext) -> None:
        """Puts things back as they were before `run`."""
        ...
