"""What the service is told and what it tells: options in, plans and reports out. Decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kubexm.engine import Cancellation

if TYPE_CHECKING:
    from kubexm.components.probes.records import Cost
    from kubexm.connector import CommandResult
    from kubexm.errors import HostError
    from kubexm.events import Observer
    from kubexm.plan import ExecutionGraph, SavedPlan
    from kubexm.redact import Secret
    from kubexm.runner import Facts

__all__ = ["CommandReport", "FactsReport", "PlanObserver", "Planned", "ServiceOptions", "Watch"]


@runtime_checkable
class PlanObserver(Protocol):
    """An observer that also wants to see the plan before its first event, to know what is to come."""

    def planned(self, graph: ExecutionGraph) -> None:
        """Called once, before anything happens on a host."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """What holds for everything one service does."""

    accept_new_host_keys: bool = False
    ask: Callable[[str], str] | None = None
    """Asks the person at the terminal for a secret; None where there is nobody."""
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("kubexm"))
    parallel: int | None = None
    """On how many hosts a command is run at once; runs say so themselves."""
    work_dir: str | None = None
    progress: Callable[[str, str], None] | None = None
    """Called with a host and how far it is while hosts are connected: connecting, connected, ready or failed."""
    stored: Mapping[str, Secret] | None = None
    """Secrets a file may name with `secret:`; None where there is no store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Who watches a run, and can stop it."""

    observers: tuple[Observer, ...] = ()
    cancellation: Cancellation = field(default_factory=Cancellation)
    run: str = ""
    """The id of the run, if it must have a certain one."""
    on_cost: Callable[[Cost], None] | None = None
    """Called with what probes beside the run have measured, about once a second; not by a server."""


@dataclass(frozen=True, slots=True)
class FactsReport:
    """What hosts told about themselves, and who did not answer."""

    facts: dict[str, Facts]
    unreached: dict[str, HostError]


@dataclass(frozen=True, slots=True)
class CommandReport:
    """What a command did on each host, and who did not answer."""

    results: dict[str, CommandResult]
    failed: dict[str, HostError]

    @property
    def ok(self) -> bool:
        """True if it exited with 0 everywhere."""
        return not self.failed and all(result.ok for result in self.results.values())


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan and what it was made from."""

    saved: SavedPlan
    unreached: dict[str, HostError]
    made: bool = False
    """True if its hosts were asked and the cluster is there already: a look at it tells just what would change."""

    @property
    def graph(self) -> ExecutionGraph:
        """The plan itself."""
        return self.saved.graph

    @property
    def offline(self) -> bool:
        """True if it stands on assumed facts."""
        return self.saved.offline

    def save(self, path: Path) -> None:
        """Writes it to a file for `apply`."""
        self.saved.save(path)
