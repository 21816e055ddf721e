"""What is done to hosts with no plan: one command on many of them. Must not need facts, steps or an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
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

__all__ = ["CommandCancellation", "FleetService"]


class CommandCancellation:
    """How a command on many hosts is stopped: once to start it on no further host, twice to end it where it runs."""

    def __init__(self) -> None:
        self.level = 0
        self._listeners: list[Callable[[], None]] = []

    def cancel(self) -> None:
        """One level further."""
        self.level = min(self.level + 1, 2)
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Calls it at each change."""
        self._listeners.append(listener)


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
        on_start: Callable[[], None] | None = None,
        cancellation: CommandCancellation | None = None,
    ) -> CommandReport:
        """One command on all hosts at once; a host that fails or is slow does not keep the others from theirs.

        `on_start` is called each time it is about to run on a host. Hosts it was not run on, or not to its end, because
        it was cancelled are among the failures.
        """
        loaded = self.load(file)
        entries = entries_of(loaded, choose_hosts(loaded.cluster, roles, limit))
        from kubexm.connector import ConnectionPool

        running = _Running(
            Command(script=command, changes=True, sudo=sudo, timeout=within, long=True),
            self._options.parallel or loaded.cluster.spec.execution.parallel,
            on_result or (lambda _: None),
            on_start or (lambda: None),
            cancellation or CommandCancellation(),
        )
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
            await running.everywhere(connectors)
        finally:
            await pool.close()
        return running.report


class _Running:
    """One command on its way to many hosts."""

    def __init__(
        self,
        command: Command,
        parallel: int,
        tell: Callable[[CommandResult | HostError], None],
        started: Callable[[], None],
        cancellation: CommandCancellation,
    ) -> None:
        self._command = command
        self._slots = asyncio.Semaphore(parallel)
        self._tell = tell
        self._started = started
        self._cancellation = cancellation
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._begun: set[str] = set()
        self.report = CommandReport({}, {})

    async def everywhere(self, connectors: Mapping[str, Connector]) -> None:
        """Runs it on all of them, and returns when all have answered."""
        loop = asyncio.get_running_loop()
        self._tasks = {name: loop.create_task(self._on(name, connector)) for name, connector in connectors.items()}
        self._cancellation.listen(self._stop)
        try:
            await asyncio.gather(*self._tasks.values())
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _stop(self) -> None:
        for name, task in self._tasks.items():
            if self._cancellation.level > 1 or name not in self._begun:
                task.cancel()

    async def _on(self, name: str, connector: Connector) -> None:
        try:
            await connector.connect()
            async with self._slots:
                self._begun.add(name)
                self._started()
                result = await connector.execute(self._command)
        except KubexmError as error:
            self._fail(name, error if isinstance(error, HostError) else HostError(error.message, hint=error.hint))
        except asyncio.CancelledError:
            if not self._cancellation.level:
                raise
            state = "stopped before the command finished" if name in self._begun else "not started"
            self._fail(name, HostError(f"cancelled: {state}"))
        else:
            self.report.results[name] = result
            self._tell(result)

    def _fail(self, name: str, error: HostError) -> None:
        error.host = name
        self.report.failed[name] = error
        self._tell(error)
