"""The one way to do anything with a cluster: the CLI and REST call the same methods.

Puts the layers together: file → context → plan → lease → engine → result. Decides nothing about clusters itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kubexm import __version__, config
from kubexm.apis.v1alpha1 import guarded
from kubexm.config import Loaded
from kubexm.errors import JournalError, StalePlanError, UsageError
from kubexm.pipeline import Pipeline, command_of, pipeline_for
from kubexm.plan import ExecutionGraph, GraphExecutionResult, RunSpec, SavedPlan, changed_paths
from kubexm.runtime import Context, RuntimeBuilder, WorkDir, new_run_id
from kubexm.service.edits import judge_edits
from kubexm.service.execution import Execution
from kubexm.service.fleet import FleetService
from kubexm.service.local_runs import LocalRun
from kubexm.service.local_runs import chosen as chosen_run
from kubexm.service.reports import FactsReport, Planned, ServiceOptions, Watch
from kubexm.service.run_files import RunFiles, RunInfo
from kubexm.service.selection import choose_hosts, choose_nodes
from kubexm.service.stocking import stocked, stocked_for

__all__ = ["ClusterService"]


class ClusterService:
    """Plans and runs pipelines for clusters; holds no state between calls."""

    is_remote = False

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

    async def plan(self, file: Path, spec: RunSpec, *, offline: bool = False) -> Planned:
        """The plan, from the file and the hosts' facts, or from the file alone."""
        made = pipeline_for(spec)
        builder = self._builder(self._fleet.load(file), spec, tolerate=not made.needs_all_hosts)
        ctx = builder.build_offline() if offline else await builder.build()
        try:
            self._execution(ctx, made, spec, Watch()).refuse(ctx)
            await judge_edits(ctx, made.accepts)
            if made.needs_assets:
                ctx = await self._stocked(ctx, builder.loaded, made, spec, unpack=False)
            plan = self._planned(ctx, builder.loaded, made, spec)
            return Planned(plan, dict(ctx.unreached), made=bool(ctx.work_dir.cluster_uid) and not offline)
        finally:
            await ctx.close()

    async def _stocked(self, ctx: Context, loaded: Loaded, made: Pipeline, spec: RunSpec, *, unpack: bool) -> Context:
        """The context with the assets that the chosen part of the pipeline needs."""

        def chosen(local: Context) -> ExecutionGraph:
            return self._planned(local, loaded, made, spec).graph

        part = chosen if spec.only or spec.skip else None
        return await stocked(ctx, loaded, self._options.ask, unpack=unpack, chosen=part)

    def _planned(self, ctx: Context, loaded: Loaded, made: Pipeline, spec: RunSpec) -> SavedPlan:
        view = ctx.pipeline_context()
        if not made.is_required(view):
            raise UsageError(f"{made.name}: there is nothing to do for {ctx.cluster.name}")
        graph = choose_nodes(made.plan(view), spec.only, spec.skip)
        path = loaded.source.path
        return SavedPlan(
            spec=spec,
            cluster=ctx.cluster.name,
            file=str(path.resolve()) if path is not None else "",
            config=guarded(ctx.cluster),
            reads=ctx.facts_trace.reads(),
            graph=graph,
            offline=ctx.offline,
            changes=made.changes,
        )

    # Running

    async def run(self, file: Path, spec: RunSpec, watch: Watch | None = None) -> GraphExecutionResult:
        """Plans and executes what the spec asks for."""
        began, watch = time.time(), watch or Watch()
        run, made = watch.run or new_run_id(), pipeline_for(spec)
        builder = self._builder(self._fleet.load(file), spec, tolerate=not made.needs_all_hosts)
        ctx = await builder.build()
        try:
            work = self._execution(ctx, made, spec, watch)
            work.refuse(ctx)
            if work.changes:
                await work.refuse_if_taken(ctx, run)
            await judge_edits(ctx, made.accepts)
            if made.needs_assets:
                ctx = await self._stocked(ctx, builder.loaded, made, spec, unpack=True)
            plan = self._planned(ctx, builder.loaded, made, spec)
            async with work.leased(ctx, builder, run) as (leased, token):
                if leased is not ctx:  # another run was here since the facts of this plan were gathered
                    await judge_edits(leased, made.accepts)
                    plan = self._planned(leased, builder.loaded, made, spec)
                return replace(await work.begin(leased, plan, run, token), started=began)
        finally:
            await ctx.close()

    async def apply(
        self, saved: Path, how: RunSpec | None = None, watch: Watch | None = None, *, file: Path | None = None
    ) -> GraphExecutionResult:
        """Executes a saved plan exactly, or refuses because something it was made from has changed."""
        began, watch = time.time(), watch or Watch()
        run, plan = watch.run or new_run_id(), _loaded_plan(saved, file)
        spec = plan.spec if how is None else plan.spec.in_the_manner_of(how)
        builder = self._builder(self._fleet.load(Path(plan.file)), spec)
        ctx = await builder.build()
        try:
            work = self._execution(ctx, pipeline_for(spec), spec, watch)
            work.refuse(ctx)
            if work.changes:
                await work.refuse_if_taken(ctx, run)
            ctx = await stocked_for(ctx, builder.loaded, self._options.ask, plan.graph)
            async with work.leased(ctx, builder, run) as (leased, token):
                facts = {name: runtime.facts for name, runtime in leased.host_runtimes.items()}
                plan.check(guarded(leased.cluster), facts)
                return replace(await work.begin(leased, plan, run, token), started=began)
        finally:
            await ctx.close()

    async def resume(
        self, run: str | Path, watch: Watch | None = None, *, file: Path | None = None, rollback: bool = False
    ) -> GraphExecutionResult:
        """Continues a run that was interrupted or failed, executing the very graph it began with, as it was asked for.

        `rollback`: if it fails again, undo what it changed, though it was not asked for at first.
        """
        began, files = time.time(), self.run_files(run)
        record = files.record()
        if files.process() is not None:
            raise files.still_running()
        if record.version != __version__:
            raise StalePlanError(
                f"run {record.id} was begun by kubexm {record.version}, and this is {__version__}",
                hint=f"resume it with that version, or run `{command_of(record.spec.pipeline)}` again, which is safe",
            )
        if record.spec.dry_run:
            raise UsageError(f"run {record.id} was a dry run", hint="there is nothing to resume; run it again")
        spec = replace(record.spec, rollback=record.spec.rollback or rollback)
        builder = self._builder(self._fleet.load(file or Path(record.file)), spec)
        ctx = await builder.build()
        try:
            changed = changed_paths(record.config, guarded(ctx.cluster))
            if changed:
                raise StalePlanError(
                    f"{record.file} has changed since run {record.id} began:\n"
                    + "\n".join(f"  {line}" for line in changed),
                    hint=f"run `{command_of(spec.pipeline)}` again instead: that is always safe",
                )
            graph, work = files.graph(), self._execution(ctx, pipeline_for(spec), spec, watch or Watch())
            work.refuse(ctx)
            ctx = await stocked_for(ctx, builder.loaded, self._options.ask, graph)
            # Held before the lease, which a second process of the same run would take over.
            with files.held():
                async with work.leased(ctx, builder, record.id) as (leased, token):
                    return replace(await work.go_on(leased, files, graph, token), started=began)
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

    def latest(self, file: Path | None, most: int) -> list[RunInfo]:
        """Runs, the latest first."""
        return self.runs(file, most=most)[::-1]

    def find(self, run: str, file: Path | None = None) -> LocalRun:
        """The run of this id, of the only id that starts so, or the last one."""
        found = {files.path.name: files for files in self.all_runs(file)}
        hint = "`kubexm runs list` shows them; --work-dir or -f says where to look"
        files = found[chosen_run(run, list(found), hint)]
        words = () if self._options.work_dir is None else ("--work-dir", self._options.work_dir)
        return LocalRun(
            files,
            lambda watch, rollback: self.resume(files.path, watch, file=file, rollback=rollback),
            words if file is None else (*words, "-f", str(file)),
        )

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
        self,
        loaded: Loaded,
        spec: RunSpec | None = None,
        *,
        hosts: Sequence[str] | None = None,
        tolerate: bool = False,
        keeps: bool = True,
    ) -> RuntimeBuilder:
        new_keys = spec is not None and spec.accept_new_host_keys
        return RuntimeBuilder(
            loaded,
            ask=self._options.ask,
            accept_new_host_keys=self._options.accept_new_host_keys or new_keys,
            ignore_errors=True if spec is not None and spec.ignore_errors else None,
            work_dir=self._options.work_dir,
            logger=self._options.logger,
            only_hosts=hosts,
            tolerate=tolerate,
            progress=self._options.progress,
            keeps=keeps,
        )

    def _execution(self, ctx: Context, made: Pipeline, spec: RunSpec, watch: Watch) -> Execution:
        parallel = spec.parallel or ctx.cluster.spec.execution.parallel
        return Execution(pipeline=made, spec=spec, watch=watch, parallel=parallel)


def _loaded_plan(saved: Path, file: Path | None) -> SavedPlan:
    """The saved plan; its cluster.yaml may have moved."""
    plan = SavedPlan.load(saved)
    return plan if file is None else replace(plan, file=str(file.resolve()))
