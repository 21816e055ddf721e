"""What is done to hosts with no plan: one command on many of them. Must not need facts, steps or an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from kubexm import config
from kubexm.config import Loaded
from kubexm.config.remote import with_stored
from kubexm.connector import Command, CommandResult, Connector
from kubexm.errors import HostError, KubexmError
from kubexm.redact import Redactor
from kubexm.runtime.reach import connectors_of, entries_of
from kubexm.service.reports import CommandReport, ServiceOptions
from kubexm.service.selection import choose_hosts

__all__ = ["FleetService"]


class FleetService:
    """Runs commands on the hosts of a file; holds no state between calls."""

    def __init__(self, options: ServiceOptions | None = None) -> None:
        self._options = options or ServiceOptions()

    def load(self, file: Path) -> Loaded:
        """The file; what is doubtful about it is logged."""
        loaded = config.load(file)
        for warning in loaded.warnings:
            text = ": ".join(part for part in (warning.place, warning.path, warning.message) if part)
            self._options.logger.warning("%s%s", text, f" ({warning.hint})" if warning.hint else "")
        return loaded if self._options.stored is None else with_stored(loaded, self._options.stored)

    async def command(
        self,
        file: Path,
        command: str,
        *,
        roles: Sequence[str] = (),
        limit: Sequence[str] = (),
        sudo: bool = True,
        within: float = 3600.0,
        on_result: Callable[[CommandResult | HostError], None] | None = None,
    ) -> CommandReport:
        """One command on all hosts at once; a host that fails or is slow does not keep the others from theirs."""
        loaded = self.load(file)
        entries = entries_of(loaded, choose_hosts(loaded.cluster, roles, limit))
        from kubexm.connector import ConnectionPool

        report = CommandReport({}, {})
        tell = on_result or (lambda _: None)
        slots = asyncio.Semaphore(self._options.parallel or loaded.cluster.spec.execution.parallel)
        wanted = Command(script=command, changes=True, sudo=sudo, timeout=within, long=True)

        async def run_on(name: str, connector: Connector) -> None:
            try:
                await connector.connect()
                async with slots:
                    result = await connector.execute(wanted)
            except KubexmError as error:
                failed = error if isinstance(error, HostError) else HostError(error.message, hint=error.hint)
                failed.host = name
                report.failed[name] = failed
                tell(failed)
            else:
                report.results[name] = result
                tell(result)

        pool = ConnectionPool()
        try:
            connectors = connectors_of(
                loaded,
                entries,
                pool,
                Redactor(),
                ask=self._options.ask,
                accept_new_host_keys=self._options.accept_new_host_keys,
            )
            await asyncio.gather(*(run_on(name, connector) for name, connector in connectors.items()))
        finally:
            await pool.close()
        return report
