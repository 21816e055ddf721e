"""The tasks of giving hosts back: nothing before every host is known to be ours, then each host at its own pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubexm.components import needs
from kubexm.components.assets import image
from kubexm.components.networks import plugin_of, plugins_possible
from kubexm.components.removal.guard import HostNotAnothers
from kubexm.components.removal.local import WorkDirectoryCleared
from kubexm.components.removal.programs import OWN, ProgramsGone
from kubexm.components.removal.restoring import HostRestored
from kubexm.components.removal.steps import (
    DirectoriesCleared,
    HostReleased,
    NetworkCleared,
    PackagesGone,
    WorkloadsGone,
)
from kubexm.components.runtimes import runtime_of
from kubexm.components.topology import keepers
from kubexm.connector import Host
from kubexm.plan import ExecutionFragment
from kubexm.runtime import TaskContext
from kubexm.task import FragmentBuilder, Task

__all__ = ["GuardHosts", "ReleaseHosts", "Wishes", "missing_hosts", "network_cleared"]

_RUNTIME_SHARED: Final = ("/etc/cni", "/etc/cni/net.d")
"""Settings of the network go, but the runtime looks for new ones there, and ends if the directory does."""
_RUNTIME_NOTES: Final = ("originals", "stamps", "assets")
_DATA_NOTES: Final = ("originals",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What is to be kept on purpose."""

    data: bool = False
    """etcd's data, and volumes of pods in directories of their nodes."""
    runtime: bool = False
    """The container runtime with its images."""


def missing_hosts(ctx: TaskContext) -> tuple[str, ...]:
    """Hosts that could not be reached; none if that is all of them, as in a plan that asks no host."""
    missing = tuple(host.name for host in ctx.hosts() if ctx.facts(host).is_assumed)
    return missing if len(missing) < len(ctx.hosts()) else ()


def network_cleared(ctx: TaskContext) -> NetworkCleared:
    """The state of a host whose kernel knows nothing of this cluster's network."""
    plugin = plugin_of(ctx.cluster)
    if plugin is None:
        return NetworkCleared()
    networks = tuple(str(one) for one in ctx.cluster.spec.network.pod_cidr)
    return NetworkCleared(links=plugin.links(ctx.cluster), networks=networks)


class GuardHosts(Task):
    """Refuses hosts of other clusters."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """One check, of every host."""
        g = FragmentBuilder("removal.guard")
        step = HostNotAnothers(cluster=ctx.cluster.name, uid=_uid(ctx))
        g.add("membership", step, on=ctx.hosts())
        return g.build()


@dataclass(frozen=True, slots=True)
class ReleaseHosts(Task):
    """Stops, clears and puts back, host by host; this machine's own part when all hosts are done."""

    wishes: Wishes

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """A chain on each host: what runs, what it left in the kernel, on disk, and how the host was."""
        g, hosts, wishes = FragmentBuilder("removal.host"), ctx.hosts(), self.wishes
        borrowed = [name for plugin in plugins_possible(ctx.cluster) for name in plugin.nft_images]
        tools = tuple(image(ctx, name) for name in ("kube-proxy", *borrowed))
        runtime = runtime_of(ctx.cluster)
        gone = WorkloadsGone(runtime=runtime.name, keep_runtime=wishes.runtime, keep_data=wishes.data, tools=tools)
        stopped = g.add("workloads", gone, on=hosts)
        network = g.add("network", network_cleared(ctx), on=hosts, after_same_host=[stopped])
        if wishes.runtime:
            network = g.add("programs", ProgramsGone(keep=runtime.programs), on=hosts, after_same_host=[network])
        directories = g.add("directories", self._directories(ctx), on=hosts, after_same_host=[network])
        restored = g.add("originals", HostRestored(keep=self._files(ctx)), on=hosts, after_same_host=[directories])
        packages = g.add("packages", PackagesGone(), on=hosts, after_same_host=[restored])
        released = g.add("mark", HostReleased(keep=self._notes()), on=hosts, after_same_host=[packages])
        local = WorkDirectoryCleared(missing=missing_hosts(ctx))
        g.add("work-directory", local, on=ctx.control_node, after=[released])
        return g.build()

    def _directories(self, ctx: TaskContext) -> DirectoriesCleared:
        spec, keep, why = ctx.cluster.spec, [], []
        shared = _RUNTIME_SHARED if self.wishes.runtime else ()
        if self.wishes.data:
            why.append("--keep-data")
            keep += [spec.etcd.data_dir, spec.storage.local_path.path]
        if self.wishes.runtime:
            why.append("--keep-runtime")
            keep += [*runtime_of(ctx.cluster).directories, str(OWN), spec.kubernetes.container_runtime.data_dir]
        return DirectoriesCleared(keep=tuple(sorted(set(keep))), shared=shared, why=", ".join(why))

    def _files(self, ctx: TaskContext) -> tuple[str, ...]:
        runtime = runtime_of(ctx.cluster)
        kept = [*runtime.files, runtime.unit] if self.wishes.runtime else []
        kept += [*self._directories(ctx).keep]
        return tuple(sorted(set(kept)))

    def _notes(self) -> tuple[str, ...]:
        notes = {*(_RUNTIME_NOTES if self.wishes.runtime else ()), *(_DATA_NOTES if self.wishes.data else ())}
        return tuple(sorted(notes))


def _uid(ctx: TaskContext) -> str:
    """The cluster's UID: from the work directory, else from the host that says most about the cluster."""
    if ctx.cluster_uid:
        return ctx.cluster_uid
    first: list[Host] = [*keepers(ctx), *(host for host in ctx.hosts() if needs.is_node(host)), *ctx.hosts()]
    for host in first:
        marker = ctx.facts(host).marker
        if marker is not None and marker.name == ctx.cluster.name and marker.uid != "unreadable":
            return marker.uid
    return ""
