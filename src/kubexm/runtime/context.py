"""The environment of a run: config, hosts, connections, caches, directories. No engine, no callbacks, no decisions."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kubexm.apis.v1alpha1 import Cluster
from kubexm.cache import Caches
from kubexm.connector import Host
from kubexm.errors import HostError
from kubexm.redact import Redactor
from kubexm.runner import Facts, Intent, Runner
from kubexm.runtime.assets import AssetShelf
from kubexm.runtime.facades import PipelineContext, StepContext
from kubexm.runtime.facts_trace import FactsTrace
from kubexm.runtime.host import HostRuntime
from kubexm.runtime.secrets import SecretStore
from kubexm.runtime.unit import UnitConnector
from kubexm.runtime.workdir import WorkDir

if TYPE_CHECKING:
    from kubexm.connector import ConnectionPool

__all__ = ["Context"]


@dataclass(frozen=True, kw_only=True)
class Context:
    """Everything a run needs to know and to reach. Layers see it through their facades only."""

    cluster: Cluster
    hosts: tuple[Host, ...]
    control_node: Host
    host_runtimes: Mapping[str, HostRuntime]
    """Of every host that was reached, and of the control node."""
    unreached: Mapping[str, HostError] = field(default_factory=dict)
    """Hosts that could not be reached at the start, within their budget."""
    runner: Runner
    pool: ConnectionPool
    logger: logging.Logger
    work_dir: WorkDir
    redactor: Redactor
    secrets: SecretStore
    assets: AssetShelf
    caches: Caches = field(default_factory=Caches)
    facts_trace: FactsTrace = field(default_factory=FactsTrace)
    ignore_errors: bool = False
    """Every node is optional: failures are reported, and what can go on goes on."""
    offline: bool = False
    """No host was asked: plans stand on assumed facts."""
    cluster_text: str = field(default="", repr=False)
    """The user's file as it was read, which may hold secrets."""
    base_dir: Path = field(default_factory=Path)
    """Where relative paths of the user's file start: the directory it is in."""

    @property
    def open_intent(self) -> Intent | None:
        """The operation that is under way, as the facts of the hosts say: of their records the newest counts."""
        records = [host.facts.intent for host in self.host_runtimes.values() if host.facts.intent is not None]
        newest = max(records, key=lambda each: each.token, default=None)
        return newest if newest is not None and newest.open else None

    def pipeline_context(self) -> PipelineContext:
        """The view for pipelines."""
        return PipelineContext(self)

    def step_context(self, node: str, connector: UnitConnector, run: str, *, subject: str = "") -> StepContext:
        """The view for one attempt of a step that acts from the connector's host, about itself or another host."""
        return StepContext(self, node, self.host_runtimes[connector.host], connector, run, subject=subject)

    def facts_of(self, host: str) -> Facts:
        """The host's facts, or the documented assumption where it was not reached."""
        runtime = self.host_runtimes.get(host)
        if runtime is not None:
            return runtime.facts
        arch = self._archs.get(host)
        return Facts.assumed(arch=arch or "amd64")

    @cached_property
    def _archs(self) -> Mapping[str, str | None]:
        return {host.name: host.arch for host in self.hosts}

    async def close(self) -> None:
        """Ends all connections and closes bundles."""
        self.assets.close()
        await self.pool.close()
