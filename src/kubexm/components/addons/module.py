"""Things of the user's own, once the cluster is up: manifests, helm charts, and commands on the hosts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from kubexm.apis.v1alpha1.services import Addon
from kubexm.components.addons.charts import ChartInstalled, ChartPlaced
from kubexm.components.addons.manifests import AddonApplied, workloads_in
from kubexm.components.addons.pruning import NoOtherAddons
from kubexm.components.addons.sources import chart_digest, manifest_files, source_file
from kubexm.components.api import RolledOut, api_hosts, through_api
from kubexm.components.assets import place
from kubexm.components.hooks import add_hooks
from kubexm.components.milestones import CLUSTER_UP
from kubexm.connector import Host
from kubexm.module import Module
from kubexm.plan import ExecutionFragment
from kubexm.runtime import ModuleContext, TaskContext
from kubexm.task import FragmentBuilder, NodeHandle, Task

__all__ = ["Addons", "InstallAddons", "RunPostInstall", "addon_key"]

_LONGEST = 63


class InstallAddons(Task):
    """Applies the addons of the file one after the other, and removes those that left it."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Each addon waits for the one before; helm and charts are brought to the host meanwhile."""
        g, addons = FragmentBuilder("addons.install"), ctx.cluster.spec.addons
        charted = [addon for addon in addons if addon.chart is not None]
        tools = [place(g, ctx, "helm", on=_helm_host(ctx))] if charted else []
        tools += [self._chart(g, ctx, addon) for addon in charted]
        done: list[NodeHandle] = []
        for addon in addons:
            done = [self._addon(g, ctx, addon, done, tools)]
        keep = NoOtherAddons(keep=tuple(addon_key(addon.name) for addon in addons))
        g.add("removed", keep, after=done, needs=CLUSTER_UP, **through_api(ctx))
        return g.build()

    def _chart(self, g: FragmentBuilder, ctx: TaskContext, addon: Addon) -> NodeHandle:
        assert addon.chart is not None
        source = ctx.local_path(addon.chart.path)
        step = ChartPlaced(
            name=addon_key(addon.name), source=source, sha256=chart_digest(source, f"addons, {addon.name}")
        )
        return g.add(f"{addon.name}-chart", step, on=_helm_host(ctx))

    def _addon(
        self,
        g: FragmentBuilder,
        ctx: TaskContext,
        addon: Addon,
        before: Sequence[NodeHandle],
        tools: Sequence[NodeHandle],
    ) -> NodeHandle:
        """The node, or the last of the nodes, that bring one addon."""
        key, namespace = addon_key(addon.name), addon.namespace or "default"
        wait = addon.wait.total_seconds() if addon.wait is not None else None
        if addon.chart is not None:
            chart, place_of = addon.chart, f"addons, {addon.name}"
            source = ctx.local_path(chart.path)
            step = ChartInstalled(
                name=key,
                release=chart.release or addon.name,
                namespace=namespace,
                chart=chart_digest(source, place_of),
                values=chart.values,
                files=tuple(source_file(ctx.local_path(file), place_of) for file in chart.values_files),
                wait=wait,
            )
            return g.add(addon.name, step, on=_helm_host(ctx), after=[*before, *tools], needs=CLUSTER_UP)
        files = manifest_files([ctx.local_path(path) for path in addon.manifests], addon.name)
        workloads = workloads_in(files, key, namespace)
        objects = AddonApplied(name=key, files=files, namespace=namespace)
        applied = g.add(addon.name, objects, after=before, needs=CLUSTER_UP, **through_api(ctx))
        if wait is None or not workloads:
            return applied
        rolled = RolledOut(name=key, workloads=workloads, patience=wait)
        return g.add(f"{addon.name}-ready", rolled, after=[applied], timeout=wait + 120, **through_api(ctx))


class RunPostInstall(Task):
    """Runs the user's commands, once the cluster is up."""

    def is_required(self, ctx: TaskContext) -> bool:
        """Not if there are none."""
        return bool(ctx.cluster.spec.system.post_install)

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """A node for each command."""
        g = FragmentBuilder("addons.post-install")
        add_hooks(g, ctx, ctx.cluster.spec.system.post_install, place="postInstall", needs=CLUSTER_UP)
        return g.build()


class Addons(Module):
    """Things of the user's own."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """Addons, and commands beside them."""
        return (InstallAddons(), RunPostInstall())


def _helm_host(ctx: TaskContext) -> Host:
    """Where charts and helm are put; the node that installs a chart needs both at hand."""
    return api_hosts(ctx)[0]


def addon_key(name: str) -> str:
    """What an addon is called in the cluster: it must fit into a label."""
    key = f"addon-{name}"
    if len(key) <= _LONGEST:
        return key
    return f"{key[: _LONGEST - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
