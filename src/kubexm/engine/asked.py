"""What crosses between the driver of a run and whoever carries out its attempts: plain data, both ways.

A question is what a step needs and nothing more; a report is all that came of it. No tasks, no connections, no journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from kubexm.engine.phases import worth_retrying
from kubexm.errors import ConnectError, ConnectionLost, OutcomeUnknown
from kubexm.plan import ErrorInfo, ExecutionNode
from kubexm.redact import Redactor, Secret, SecretRef
from kubexm.runtime import SecretStore
from kubexm.step import Check, Values

__all__ = ["Asked", "AttemptFailed", "Attempts", "Fault", "Report", "StoredSecrets", "declares", "needed_secrets"]

_NOTHING: Mapping[Any, Any] = MappingProxyType({})


def _nothing() -> Mapping[Any, Any]:
    return _NOTHING


class Asked(NamedTuple):
    """One unit, and all its step needs to act. A tuple, since runs make a hundred thousand."""

    node: ExecutionNode
    host: str
    """What the unit is about."""
    actor: str
    """The host it acts from."""
    run: str
    urgency: float = 0.0
    """Of what it sends, where that has to wait for its turn."""
    values: Mapping[tuple[str, str], Any] = _NOTHING
    """The values it consumes, by name and host."""
    notes: Mapping[tuple[str, str], Any] = _NOTHING
    """What earlier attempts of this node noted, by name and host."""
    secrets: Mapping[str, Secret] = _NOTHING
    """Where the secrets its step declares are found, as far as they are made: `needed_secrets` says which."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an attempt failed, and what follows from it."""

    info: ErrorInfo
    retry: bool = False
    """Another attempt may succeed."""
    gone: bool = False
    """The host it acted from cannot be reached any more."""
    unknown: bool = False
    """Nobody can tell whether the change was made."""

    @classmethod
    def of(cls, error: BaseException, redact: Redactor) -> Fault:
        """The error as data, secrets masked."""
        return cls(
            ErrorInfo.of(error, redact),
            retry=worth_retrying(error),
            gone=isinstance(error, ConnectError | ConnectionLost),
            unknown=isinstance(error, OutcomeUnknown),
        )


@dataclass(slots=True)
class Report:
    """What came of one call."""

    check: Check | None = None
    """What was read last, if anything was."""
    done: bool = False
    """The state holds, or is believed to: there is nothing more to do for this unit."""
    values: Values = field(default_factory=_nothing)
    fault: Fault | None = None
    interrupted: bool = False
    """It was stopped midway."""
    stdout: str = ""
    """What its changing commands printed, head and tail; the whole was handed over as it came."""
    stderr: str = ""
    warnings: tuple[str, ...] = ()
    notes: Mapping[tuple[str, str], Any] = field(default_factory=_nothing)
    """What the step noted for later attempts of its node, and for rollback."""
    kept: Mapping[str, Secret] = field(default_factory=_nothing)
    """Secrets to keep in the work directory."""
    busy: float = 0.0
    """Seconds in which a command or a transfer was under way."""
    round_trips: int | None = None
    """To the actor since it was connected, where they are counted."""


class AttemptFailed(Exception):
    """A report had a fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.info.message)
        self.fault = fault


class Attempts(Protocol):
    """Carries out attempts: here, or wherever the hosts can be reached from. Deadlines are seconds left."""

    async def look(self, asked: Asked) -> Report:
        """Reads whether the state holds."""
        ...

    async def run(self, asked: Asked, receipts: str, *, seconds: float, readable: bool) -> Report:
        """Changes, under receipts of this name, and reads back until the state holds, where it can be read at all.

        Intent is durable before this is called.
        """
        ...

    async def settle(self, asked: Asked, receipts: str, *, boot_id: str, seconds: float, here: bool) -> Report:
        """Finds out how a change of an earlier process ended: done, to be run (again), or a fault.

        `here`: the actor is the host that has the receipts. `seconds`: until the change passes its deadline.
        """
        ...

    async def undo(self, asked: Asked, receipts: str, *, seconds: float) -> Report:
        """Rolls back what the step changed in this run."""
        ...

    def stop(self, node: str, host: str) -> None:
        """Ends the call that is under way for this unit, if there is one: its report says that it was interrupted."""
        ...


def declares(names: tuple[str, ...], name: str) -> bool:
    """True if this secret is among those declared."""
    return any(name == one or (one.endswith("*") and name.startswith(one[:-1])) for one in names)


def needed_secrets(asked: Asked) -> dict[str, Secret]:
    """The secrets that the step declares, as far as they are made: what has to cross, and nothing more."""
    names = asked.node.step.secrets(asked.actor)
    return {name: asked.secrets[name] for name in asked.secrets if declares(names, name)}


class StoredSecrets(Mapping[str, Secret]):
    """The secrets in a store, each read when it is asked for."""

    __slots__ = ("_store",)

    def __init__(self, store: SecretStore) -> None:
        self._store = store

    def __getitem__(self, name: str) -> Secret:
        if SecretRef(name) not in self._store:
            raise KeyError(name)
        return self._store.get(SecretRef(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and SecretRef(name) in self._store

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.names())

    def __len__(self) -> int:
        return len(self._store.names())
