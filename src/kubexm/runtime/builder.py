"""Builds the context of a run: reads the file, connects to all hosts at once, gathers their facts.

Whatever fails comes back together, every host with its reason, unless the hosts that fail are workers within budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kubexm import config
from kubexm.apis.v1alpha1 import Host as HostEntry
from kubexm.config import Loaded
from kubexm.connector import Connector, Host
from kubexm.errors import HostError, InitializationError, KubexmError
from kubexm.redact import Redactor
from kubexm.runner import Runner
from kubexm.runtime.assets import AssetShelf
from kubexm.runtime.context import Context
from kubexm.runtime.facts_trace import FactsTrace
from kubexm.runtime.host import HostRuntime
from kubexm.runtime.reach import CONTROL_NODE, connectors_of, entries_of
from kubexm.runtime.secrets import SecretStore
from kubexm.runtime.workdir import WorkDir

if TYPE_CHECKING:
    from kubexm.connector import ConnectionPool

__all__ = ["RuntimeBuilder", "plan_host"]


class RuntimeBuilder:
    """Everything needed to build a context; `build` connects, `build_offline` asks no host."""

    def __init__(
        self,
        file: Path | Loaded,
        *,
        ask: Callable[[str], str] | None = None,
        accept_new_host_keys: bool = False,
        ignore_errors: bool | None = None,
        work_dir: str | None = None,
        logger: logging.Logger | None = None,
        only_hosts: Collection[str] | None = None,
        tolerate: bool = False,
        progress: Callable[[str, str], None] | None = None,
        keeps: bool = True,
    ) -> None:
        """`only_hosts` leaves the others out; `tolerate` treats every unreachable host as within budget; without
        `keeps` the work directory is not made, for what only looks.

        `progress` is called with a host and how far it is: connecting, connected, ready (its facts known) or failed.
        """
        self._loaded = file if isinstance(file, Loaded) else config.load(file)
        self._entries = entries_of(self._loaded, only_hosts)
        self._ask = ask
        self._accept = accept_new_host_keys
        self._ignore_errors = ignore_errors
        self._work_dir = work_dir
        self._logger = logger or logging.getLogger("kubexm")
        self._tolerate = tolerate
        self._progress = progress
        self._keeps = keeps
        self._runner = Runner()

    @property
    def loaded(self) -> Loaded:
        """The file as it was read."""
        return self._loaded

    async def build(self) -> Context:
        """The context, with every host connected and its facts gathered. Close it when done."""
        from kubexm.connector import ConnectionPool

        redactor = Redactor()
        pool = ConnectionPool()
        try:
            connectors = connectors_of(
                self._loaded, self._entries, pool, redactor, ask=self._ask, accept_new_host_keys=self._accept
            )
            connectors[CONTROL_NODE] = pool.local(CONTROL_NODE, sudo=False)
            hosts = {entry.name: plan_host(entry) for entry in self._entries}
            hosts[CONTROL_NODE] = _control_node()
            outcomes = await asyncio.gather(*(self._initialise(host, connectors[name]) for name, host in hosts.items()))
            found = dict(zip(hosts, outcomes, strict=True))
            runtimes = {name: outcome for name, outcome in found.items() if isinstance(outcome, HostRuntime)}
            errors = {name: outcome for name, outcome in found.items() if isinstance(outcome, HostError)}
            self._refuse_beyond_budget(errors)
            return self._context(redactor, pool, runtimes, errors)
        except BaseException:
            await pool.close()
            raise

    async def again(self, ctx: Context) -> Context:
        """The same context with facts gathered anew; what was planned from earlier ones is forgotten."""
        reached = [host for host in (*ctx.hosts, ctx.control_node) if host.name in ctx.host_runtimes]
        outcomes = await asyncio.gather(
            *(self._initialise(host, ctx.host_runtimes[host.name].connector) for host in reached)
        )
        runtimes = {outcome.name: outcome for outcome in outcomes if isinstance(outcome, HostRuntime)}
        gone = {outcome.host: outcome for outcome in outcomes if isinstance(outcome, HostError)}
        unreached = {**ctx.unreached, **gone}
        self._refuse_beyond_budget(unreached)
        return replace(ctx, host_runtimes=runtimes, unreached=unreached, facts_trace=FactsTrace())

    def build_offline(self) -> Context:
        """A context that knows the file alone: for plans with no host reachable."""
        from kubexm.connector import ConnectionPool

        return self._context(Redactor(), ConnectionPool(), {}, {}, offline=True)

    async def _initialise(self, host: Host, connector: Connector) -> HostRuntime | HostError:
        self._tell(host, "connecting")
        try:
            await connector.connect()
            self._tell(host, "connected")
            facts = await self._runner.gather_facts(connector)
        except HostError as error:
            error.host = host.name
            self._tell(host, "failed")
            return error
        except KubexmError as error:
            self._tell(host, "failed")
            return HostError(error.message, host=host.name, hint=error.hint)
        self._tell(host, "ready")
        return HostRuntime(host, connector, facts, self._runner)

    def _tell(self, host: Host, state: str) -> None:
        if self._progress is not None and host.name != CONTROL_NODE:
            self._progress(host.name, state)

    def _refuse_beyond_budget(self, errors: dict[str, HostError]) -> None:
        if not errors or self._tolerate:
            return
        roles = {entry.name: entry.roles for entry in self._entries}
        expendable, allowed = self._loaded.cluster.spec.execution.lost_workers(roles)
        if len(errors) > allowed or not set(errors) <= set(expendable):
            raise InitializationError(errors.values())

    def _context(
        self,
        redactor: Redactor,
        pool: ConnectionPool,
        runtimes: dict[str, HostRuntime],
        unreached: dict[str, HostError],
        *,
        offline: bool = False,
    ) -> Context:
        cluster = self._loaded.cluster
        settings = cluster.spec.global_
        work_dir = WorkDir.of(cluster.name, self._work_dir or settings.work_dir, self._loaded.source.directory)
        if self._keeps and not offline:
            work_dir.prepare("--work-dir" if self._work_dir else "--work-dir or spec.global.workDir")
        ignore = settings.ignore_errors if self._ignore_errors is None else self._ignore_errors
        return Context(
            cluster=cluster,
            hosts=tuple(plan_host(entry) for entry in self._entries),
            control_node=_control_node(),
            host_runtimes=runtimes,
            unreached=unreached,
            runner=self._runner,
            pool=pool,
            logger=self._logger,
            work_dir=work_dir,
            redactor=redactor,
            secrets=SecretStore(work_dir.secrets, redactor),
            assets=AssetShelf(cluster),
            ignore_errors=ignore,
            offline=offline,
            cluster_text=self._loaded.source.text,
            base_dir=self._loaded.source.directory,
        )


def plan_host(entry: HostEntry) -> Host:
    """A host of the file as plans see it."""
    return Host(
        name=entry.name,
        address=entry.address,
        internal_addresses=tuple(str(address) for address in entry.internal_addresses),
        roles=entry.roles,
        labels=dict(entry.labels),
        taints=tuple(str(taint) for taint in entry.taints),
        arch=entry.arch,
        local=entry.type == "local",
    )


def _control_node() -> Host:
    return Host(name=CONTROL_NODE, address="127.0.0.1", local=True)
