"""Carries out a graph: lease, run directory, journal, engine, and tidying up. Decides nothing about what is run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from kubexm.engine import Journal, LocalEngine, Prior, RunOptions
from kubexm.errors import KubexmError
from kubexm.events import EventKind
from kubexm.pipeline import Pipeline, command_of
from kubexm.plan import ExecutionGraph, GraphExecutionResult, RunSpec, RunStatus, SavedPlan
from kubexm.runner import LAYOUT, Intent
from kubexm.runtime import ClusterLease, Context, HostRuntime, RuntimeBuilder
from kubexm.runtime.operation import close_operation, refuse_newer_layout, refuse_other_operation, write_intent
from kubexm.service.probing import NONE, Probing
from kubexm.service.reports import PlanObserver, Watch
from kubexm.service.run_files import RunFiles, RunRecord

__all__ = ["Execution"]

_ENDED = (RunStatus.SUCCEEDED, RunStatus.PARTIAL)
"""How a run ends that ends its operation. Hosts lost within their budget do not keep it open: they may never return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a graph is executed: for this pipeline, as this spec says, watched by these."""

    pipeline: Pipeline
    spec: RunSpec
    watch: Watch
    parallel: int

    @property
    def changes(self) -> bool:
        """True if it may change the cluster."""
        return self.pipeline.changes and not self.spec.dry_run

    async def begin(self, ctx: Context, plan: SavedPlan, run: str, token: int) -> GraphExecutionResult:
        """A new run of this plan, within the lease that it needs."""
        record = RunRecord(
            id=run,
            cluster=plan.cluster,
            file=plan.file,
            spec=self.spec,
            changes=plan.changes,
            config=plan.config,
        )
        files = RunFiles.create(ctx.work_dir.run(run), record, plan.graph)
        with files.held():
            journal = Journal.create(files.journal)
            return await self._execute(ctx, files, journal, plan.graph, None, token)

    async def go_on(self, ctx: Context, files: RunFiles, graph: ExecutionGraph, token: int) -> GraphExecutionResult:
        """The rest of a run that was begun earlier."""
        journal, events = Journal.reopen(files.journal)
        return await self._execute(ctx, files, journal, graph, Prior.of(events), token)

    def refuse(self, ctx: Context) -> None:
        """Raises if a newer kubexm has been here, or if another operation has to be finished first."""
        refuse_newer_layout(ctx)
        if self.pipeline.operation or self.pipeline.accepts:
            refuse_other_operation(ctx, self.pipeline.name if self.pipeline.operation else "", command_of)

    async def refuse_if_taken(self, ctx: Context, run: str) -> None:
        """Raises LeaseHeldError if another run is at work: nobody has to wait for a plan to hear that."""
        await ClusterLease(ctx, run, lambda error: None).check()

    @asynccontextmanager
    async def leased(self, ctx: Context, builder: RuntimeBuilder, run: str) -> AsyncIterator[tuple[Context, int]]:
        """Within, nobody else changes the cluster; if somebody takes over all the same, the run is stopped at once.

        The facts of the context hold under the lease: it is another one if a run was at work since they were gathered.
        With it comes the fencing token.
        """

        def lost(error: KubexmError) -> None:
            ctx.logger.error("%s", error.message)
            self.watch.cancellation.abandon()

        lease = ClusterLease(ctx, run, lost)
        if self.changes:
            await lease.acquire()
        try:
            found = await builder.again(ctx) if lease.followed else ctx
            if found is not ctx:
                self.refuse(found)
            yield found, lease.token
        finally:
            await lease.release(leave=self.pipeline.leaves_hosts)

    async def _execute(
        self,
        ctx: Context,
        files: RunFiles,
        journal: Journal,
        graph: ExecutionGraph,
        prior: Prior | None,
        token: int,
    ) -> GraphExecutionResult:
        run, dry_run = files.path.name, self.spec.dry_run
        probing = Probing(ctx, graph, NONE if dry_run else self.pipeline.probes, self.watch.on_cost)
        options = RunOptions(
            run=run,
            journal=journal,
            dry_run=dry_run,
            prior=prior,
            observers=(*self.watch.observers, probing),
            logs=files.logs,
            cancellation=self.watch.cancellation,
            rollback=self.spec.rollback,
        )
        try:
            self._show_plan(ctx, graph)
            async with probing.beside():
                intent = await self._record_intent(ctx, run, token, resumed=prior is not None)
                result = await LocalEngine(parallel=self.parallel).execute(ctx, graph, options)
            if intent is not None and result.status in _ENDED and not intent.hold:
                await close_operation(ctx, intent, token)
            touched = result.changed or prior is not None  # who resumes may find that only tidying up is left
            if result.status is RunStatus.SUCCEEDED and touched and not dry_run:
                await _tidy_hosts(ctx, "" if self.pipeline.leaves_hosts else f"{run}.", run)
            return result
        finally:
            if probing.cost is not None:
                journal.append(EventKind.RUN_COST, data=probing.cost.to_dict())
            await journal.close()
            _write_timeline(ctx, files, graph)
            _write_summary(ctx, files)

    async def _record_intent(self, ctx: Context, run: str, token: int, *, resumed: bool) -> Intent | None:
        """Records the operation on its keepers before anything is changed; None if this is no operation."""
        if not self.pipeline.operation or not self.changes:
            return None
        view = ctx.pipeline_context()
        known = view.intent if resumed else None
        intent = replace(known or self.pipeline.intent(view), operation=self.pipeline.name, run=run, layout=LAYOUT)
        await write_intent(ctx, intent, token)
        return intent

    def _show_plan(self, ctx: Context, graph: ExecutionGraph) -> None:
        for observer in self.watch.observers:
            if isinstance(observer, PlanObserver):
                try:
                    observer.planned(graph)
                except Exception:  # an observer can never change or stop a run
                    ctx.logger.exception("an observer failed to take in the plan")


def _write_timeline(ctx: Context, files: RunFiles, graph: ExecutionGraph) -> None:
    try:
        files.write_timeline(graph)
    except KubexmError as error:  # a full disk here must not spoil a run that is over
        ctx.logger.warning("the timeline of this run is not written: %s", error.message)


def _write_summary(ctx: Context, files: RunFiles) -> None:
    try:
        files.write_summary()
    except (KubexmError, OSError) as error:  # lists read the journal instead
        ctx.logger.warning("the summary of this run is not written: %s", error)


async def _tidy_hosts(ctx: Context, receipts: str, run: str) -> None:
    """A run that succeeded is neither resumed nor rolled back: hosts need not keep its receipts and snapshots."""

    async def tidy(host: HostRuntime) -> None:
        await host.originals.forget(under=host.runner.snapshots(run))
        await host.connector.forget(receipts)

    hosts = [ctx.host_runtimes[host.name] for host in ctx.hosts if host.name in ctx.host_runtimes]
    outcomes = await asyncio.gather(*(tidy(host) for host in hosts), return_exceptions=True)
    for host, outcome in zip(hosts, outcomes, strict=True):
        if isinstance(outcome, KubexmError):
            ctx.logger.warning("%s: something of this run is left behind: %s", host.name, outcome.message)
        elif isinstance(outcome, BaseException):
            raise outcome
