"""The one way to do anything with a cluster: the CLI and, later, REST call the same methods.

Puts the layers together: file → context → plan → lease → engine → result. Decides nothing about clusters itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kubexm import __version__, config
from kubexm.apis.v1alpha1 import Cluster, guarded
from kubexm.config import Loaded
from kubexm.engine import Cancellation
from kubexm.errors import JournalError, StalePlanError, UsageError
from kubexm.events import Observer
from kubexm.pipeline import Pipeline, pipeline_named, usual_probes
from kubexm.plan import ExecutionGraph, GraphExecutionResult, SavedPlan, changed_paths
from kubexm.runtime import Context, RuntimeBuilder, WorkDir, new_run_id
from kubexm.service.edits import judge_edits
from kubexm.service.execution import Execution
from kubexm.service.fleet import FleetService
from kubexm.service.probing import OnCost
from kubexm.service.reports import FactsReport, Planned, ServiceOptions
from kubexm.service.run_files import RunFiles, RunInfo
from kubexm.service.selection import choose_hosts, choose_nodes
from kubexm.service.stocking import stocked, stocked_for
from kubexm.store import StepLog

__all__ = ["ClusterService"]


class ClusterService:
    """Plans and runs pipelines for clusters; holds no state between calls."""

    def __init__(self, options: ServiceOptions | None = None) -> None:
        self._options = options or ServiceOptions()
        self._fleet = FleetService(self._options)

    # Looking

    async def facts(self, file: Path, *, roles: Sequence[str] = (), limit: Sequence[str] = ()) -> FactsReport:
        """The facts of the hosts, gathered now."""
        loaded = self._fleet.load(file)
        chosen = choose_hosts(loaded.cluster, roles, limit)
        ctx = await self._builder(loaded, hosts=chosen, tolerate=True, keeps=False).build()
        try:
            facts = {host.name: ctx.facts_of(host.name) for host in ctx.hosts if host.name in ctx.host_runtimes}
            return FactsReport(facts, dict(ctx.unreached))
        finally:
            await ctx.close()

    # Planning

    async def plan(
        self,
        file: Path,
        pipeline: str,
        *,
        offline: bool = False,
        only: Sequence[str] = (),
        skip: Sequence[str] = (),
        **pipeline_options: Any,
    ) -> Planned:
        """The plan, from the file and the hosts' facts, or from the file alone."""
        made = pipeline_named(pipeline, **pipeline_options)
        builder = self._builder(self._fleet.load(file), tolerate=not made.needs_all_hosts)
        ctx = builder.build_offline() if offline else await builder.build()
        try:
            if made.follows_file:
                await judge_edits(ctx)
            if made.needs_assets:
                ctx = await self._stocked(ctx, builder.loaded, made, only, skip, unpack=False)
            plan = self._planned(ctx, builder.loaded, made, only, skip)
            return Planned(plan, dict(ctx.unreached), made=bool(ctx.work_dir.cluster_uid) and not offline)
        finally:
            await ctx.close()

    async def _stocked(
        self, ctx: Context, loaded: Loaded, made: Pipeline, only: Sequence[str], skip: Sequence[str], *, unpack: bool
    ) -> Context:
        """The context with the assets that the chosen part of the pipeline needs."""

        def chosen(local: Context) -> ExecutionGraph:
            return self._planned(local, loaded, made, only, skip).graph

        part = chosen if only or skip else None
        return await stocked(ctx, loaded, self._options.ask, unpack=unpack, chosen=part)

    def _planned(
        self,
        ctx: Context,
        loaded: Loaded,
        made: Pipeline,
        only: Sequence[str],
        skip: Sequence[str],
    ) -> SavedPlan:
        view = ctx.pipeline_context()
        if not made.is_required(view):
            raise UsageError(f"{made.name}: there is nothing to do for {ctx.cluster.name}")
        graph = choose_nodes(made.plan(view), only, skip)
        path = loaded.source.path
        return SavedPlan(
            pipeline=made.name,
            cluster=ctx.cluster.name,
            file=str(path.resolve()) if path is not None else "",
            config=guarded(ctx.cluster),
            reads=ctx.facts_trace.reads(),
            graph=graph,
            offline=ctx.offline,
            changes=made.changes,
        )

    # Running

    async def run(
        self,
        file: Path,
        pipeline: str,
        *,
        dry_run: bool = False,
        only: Sequence[str] = (),
        skip: Sequence[str] = (),
        rollback: bool = False,
        observers: Sequence[Observer] = (),
        cancellation: Cancellation | None = None,
        run: str = "",
        on_cost: OnCost | None = None,
        **pipeline_options: Any,
    ) -> GraphExecutionResult:
        """Plans and executes a pipeline. `run` is the id of the run, if it must have a certain one.

        `on_cost` hears of what probes beside it have measured, about once a second.
        """
        began, run = time.time(), run or new_run_id()
        made = pipeline_named(pipeline, **pipeline_options)
        builder = self._builder(self._fleet.load(file), tolerate=not made.needs_all_hosts)
        ctx = await builder.build()
        try:
            work, changes = self._execution(ctx, rollback, observers, cancellation), made.changes and not dry_run
            work = replace(work, probes=made.probes, on_cost=on_cost)
            if changes:
                await work.refuse_if_taken(ctx, run)
            if made.follows_file:
                await judge_edits(ctx)
            if made.needs_assets:
                ctx = await self._stocked(ctx, builder.loaded, made, only, skip, unpack=True)
            plan = self._planned(ctx, builder.loaded, made, only, skip)
            async with work.leased(ctx, builder, run, pipeline, changes=changes) as leased:
                if leased is not ctx:  # another run was here since the facts of this plan were gathered
                    if made.follows_file:
                        await judge_edits(leased)
                    plan = self._planned(leased, builder.loaded, made, only, skip)
                return replace(await work.begin(leased, plan, dry_run=dry_run, run=run), started=began)
        finally:
            await ctx.close()

    async def apply(
        self,
        saved: Path,
        file: Path | None = None,
        *,
        dry_run: bool = False,
        rollback: bool = False,
        observers: Sequence[Observer] = (),
        cancellation: Cancellation | None = None,
        run: str = "",
    ) -> GraphExecutionResult:
        """Executes a saved plan exactly, or refuses because something it was made from has changed."""
        began, run = time.time(), run or new_run_id()
        plan = _loaded_plan(saved, file)
        builder = self._builder(self._fleet.load(Path(plan.file)))
        ctx = await builder.build()
        try:
            work, changes = self._execution(ctx, rollback, observers, cancellation), plan.changes and not dry_run
            work = replace(work, probes=usual_probes(plan.pipeline))
            if changes:
                await work.refuse_if_taken(ctx, run)
            ctx = await stocked_for(ctx, builder.loaded, self._options.ask, plan.graph)
            async with work.leased(ctx, builder, run, plan.pipeline, changes=changes) as leased:
                facts = {name: runtime.facts for name, runtime in leased.host_runtimes.items()}
                plan.check(guarded(leased.cluster), facts)
                return replace(await work.begin(leased, plan, dry_run=dry_run, run=run), started=began)
        finally:
            await ctx.close()

    async def resume(
        self,
        run: str | Path,
        *,
        file: Path | None = None,
        rollback: bool = False,
        observers: Sequence[Observer] = (),
        cancellation: Cancellation | None = None,
    ) -> GraphExecutionResult:
        """Goes on with a run that was interrupted or failed, executing the very graph it began with."""
        files = self.run_files(run)
        request = files.request()
        if files.process() is not None:
            raise files.still_running()
        if request.version != __version__:
            raise StalePlanError(
                f"run {request.id} was begun by kubexm {request.version}, and this is {__version__}",
                hint=f"resume it with that version, or run `kubexm {request.pipeline}` again: that is always safe",
            )
        if request.dry_run:
            raise UsageError(f"run {request.id} was a dry run", hint="there is nothing to resume; run it again")
        began = time.time()
        builder = self._builder(self._fleet.load(file or Path(request.file)))
        ctx = await builder.build()
        try:
            changed = changed_paths(request.config, guarded(ctx.cluster))
            if changed:
                raise StalePlanError(
                    f"{request.file} has changed since run {request.id} began:\n"
                    + "\n".join(f"  {line}" for line in changed),
                    hint=f"run `kubexm {request.pipeline}` again instead: that is always safe",
                )
            graph = files.graph()
            work = self._execution(ctx, rollback, observers, cancellation)
            ctx = await stocked_for(ctx, builder.loaded, self._options.ask, graph)
            # Held before the lease, which a second process of the same run would take over.
            with files.held():
                async with work.leased(ctx, builder, request.id, request.pipeline, changes=request.changes) as leased:
                    return replace(await work.go_on(leased, files, request, graph), started=began)
        finally:
            await ctx.close()

    # Runs

    def runs(self, file: Path | None = None, *, most: int | None = None) -> list[RunInfo]:
        """Every run of a cluster, or of all clusters of the work directory, oldest first; at most so many, the last."""
        found = []
        everything = sorted(self.all_runs(file), key=lambda files: files.path.name)  # names begin with the time
        for files in everything[-most:] if most is not None else everything:
            try:
                found.append(files.info())
            except JournalError as error:  # one that cannot be read does not hide the others
                self._options.logger.warning("%s", error.message)
        return sorted(found, key=lambda info: (info.started, info.id))

    def run_files(self, run: str | Path, file: Path | None = None) -> RunFiles:
        """The files of a run, by its id or its directory."""
        if isinstance(run, Path):
            return RunFiles(run)
        found = [files for files in self.all_runs(file) if files.path.name == run]
        if not found:
            raise UsageError(
                f"there is no run {run!r} here", hint="`kubexm runs list` shows them; --work-dir or -f says where"
            )
        return found[0]

    def run_info(self, run: str | Path) -> RunInfo:
        """One run."""
        return self.run_files(run).info()

    def step_logs(self, run: str | Path) -> list[StepLog]:
        """The record of each (node, host) of a run."""
        return self.run_files(run).step_logs()

    def log_text(self, run: str | Path, node: str, host: str) -> str:
        """The whole output of one (node, host)."""
        return self.run_files(run).log_text(node, host)

    def cancel(self, run: str | Path) -> None:
        """Asks the process that carries out the run to finish what runs and start nothing new."""
        self.run_files(run).cancel()

    def all_runs(self, file: Path | None = None) -> Iterator[RunFiles]:
        """The files of every run of a cluster, or of all clusters of the work directory."""
        if file is not None:
            places = [self._work_dir(config.load(file)).path]
        else:
            base = WorkDir.of("", self._options.work_dir, Path.cwd()).path
            places = sorted(base.iterdir()) if base.is_dir() else []
        for place in places:
            runs = WorkDir(place).runs
            for path in sorted(runs.iterdir()) if runs.is_dir() else ():
                if (path / "run.json").exists():
                    yield RunFiles(path)

    # Keys

    def kubeconfig(self, file: Path) -> str:
        """The administrator's kubeconfig of the cluster."""
        loaded = config.load(file)
        path = self._work_dir(loaded).path / "kubeconfig"
        if not path.exists():
            raise UsageError(
                f"{path} is not there: {loaded.cluster.name} was not created from here, or its work directory was lost",
                hint="`kubexm create cluster` makes it, and fetches back what is needed of a cluster that exists",
            )
        return path.read_text("utf-8")

    # Settings

    def _work_dir(self, loaded: Loaded) -> WorkDir:
        configured = self._options.work_dir or loaded.cluster.spec.global_.work_dir
        return WorkDir.of(loaded.cluster.name, configured, loaded.source.directory)

    def _builder(
        self, loaded: Loaded, *, hosts: Sequence[str] | None = None, tolerate: bool = False, keeps: bool = True
    ) -> RuntimeBuilder:
        return RuntimeBuilder(
            loaded,
            ask=self._options.ask,
            accept_new_host_keys=self._options.accept_new_host_keys,
            ignore_errors=self._options.ignore_errors,
            work_dir=self._options.work_dir,
            logger=self._options.logger,
            only_hosts=hosts,
            tolerate=tolerate,
            progress=self._options.progress,
            keeps=keeps,
        )

    def _execution(
        self, ctx: Context, rollback: bool, observers: Sequence[Observer], cancellation: Cancellation | None
    ) -> Execution:
        return Execution(
            parallel=self._parallel(ctx.cluster),
            rollback=rollback,
            observers=tuple(observers),
            stop=cancellation or Cancellation(),
        )

    def _parallel(self, cluster: Cluster) -> int:
        return self._options.parallel or cluster.spec.execution.parallel


def _loaded_plan(saved: Path, file: Path | None) -> SavedPlan:
    """The saved plan; its cluster.yaml may have moved."""
    plan = SavedPlan.load(saved)
    return plan if file is None else replace(plan, file=str(file.resolve()))
