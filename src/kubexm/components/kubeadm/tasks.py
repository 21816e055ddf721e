"""The tasks that bring up a control plane of static pods, open it for nodes, and let nodes join.

kubeadm's phases are nodes of the plan, one by one, rather than one `init` and many `join`: each can be repeated and
tells whether it is done, so a run that was killed goes on where it was. And since all certificates are there before,
no control plane has to wait for another: where etcd is ready, all of them start at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.cache import Key
from kubexm.components.api import api_hosts, through_api
from kubexm.components.assets import image, place
from kubexm.components.control_plane import settings_files, stop_timeout
from kubexm.components.documents import yaml_text
from kubexm.components.host_files import FilesPresent, HostFile, per_host_files
from kubexm.components.identity import HostMarked
from kubexm.components.kubeadm.config import cluster_configuration, configuration
from kubexm.components.kubeadm.health import StaticPodsServe
from kubexm.components.kubeadm.layout import API_SERVER, CONFIG, CONTROLLER_MANAGER, ETCD, SCHEDULER
from kubexm.components.kubeadm.manifests import StaticPodsWritten
from kubexm.components.kubeadm.members import (
    MEMBERS,
    PodMemberAdmitted,
    PodMemberBegins,
    PodMembersKnown,
    PodMemberVotes,
)
from kubexm.components.kubeadm.patches import patch_files
from kubexm.components.kubeadm.pods import api_probe, client_urls, controller_probes, etcd_probe, peer_urls, pods_of
from kubexm.components.kubeadm.upload import SettingsUploaded
from kubexm.components.kubelet import certified, kubelet_running, open_api
from kubexm.components.milestones import (
    API_SERVING,
    ETCD_QUORUM,
    HOST_READY,
    IMAGES_PRESENT,
    KUBELET_INSTALLED,
    KUBELET_RUNNING,
    PKI_ISSUED,
    RUNTIME_READY,
)
from kubexm.components.pki import control_plane_files, place_files
from kubexm.components.runtimes import runtime_of
from kubexm.components.topology import control_planes, joined_control_planes
from kubexm.connector import Host
from kubexm.module import rolling
from kubexm.plan import EMPTY, ExecutionFragment, Milestone
from kubexm.runtime import TaskContext
from kubexm.step import DirectoryPresent, Step
from kubexm.task import Batch, FragmentBuilder, NodeHandle, Task

__all__ = ["OpenCluster", "PrepareControlPlanes", "RunControlPlanes"]

_CONTROLLERS: Final = (CONTROLLER_MANAGER, SCHEDULER)
_PHASES: Final = {
    ETCD: "etcd local",
    API_SERVER: "control-plane apiserver",
    CONTROLLER_MANAGER: "control-plane controller-manager",
    SCHEDULER: "control-plane scheduler",
}
PREPARED: Final = Milestone("ControlPlanePrepared", per_host=True)
"""Everything static pods are made from and read is in place. Every control plane."""


class PrepareControlPlanes(Task):
    """Puts programs, certificates and settings on every control plane; starts nothing."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Side by side."""
        g, hosts = FragmentBuilder("kubeadm.prepare"), control_planes(ctx)
        parts = [
            place(g, ctx, "kubeadm", on=hosts),
            place(g, ctx, "kubectl", on=hosts),
            place_files(g, control_plane_files(ctx.cluster), on=hosts),
            g.add("settings", FilesPresent(files=_files(ctx, hosts)), on=hosts, needs=PKI_ISSUED),
            *self._directories(g, ctx, hosts),
        ]
        # One node for all of them: a milestone has one provider.
        certified(g, ctx, on=hosts, after_same_host=parts, provides=PREPARED)
        return g.build()

    def _directories(self, g: FragmentBuilder, ctx: TaskContext, hosts: Sequence[Host]) -> list[NodeHandle]:
        spec, found = ctx.cluster.spec, []
        if spec.kubernetes.audit.enabled and spec.kubernetes.audit.log_path != "-":
            logs = PurePosixPath(spec.kubernetes.audit.log_path).parent
            found.append(g.add("audit-log", DirectoryPresent(path=logs, mode=0o700), on=hosts))
        if spec.etcd.type == "kubeadm":
            data = DirectoryPresent(path=PurePosixPath(spec.etcd.data_dir), mode=0o700, own=True)
            found.append(g.add("etcd-data", data, on=hosts))
        return found


class RunControlPlanes(Task):
    """Control planes that ran before take over changes one at a time; new ones start all at once.

    Where etcd is stacked, and there already, new ones join it one at a time too, after the others.
    """

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """The rolling form for those that were brought up before, the bring-up form for all others."""
        known = joined_control_planes(ctx)
        new = tuple(host for host in control_planes(ctx) if host not in known)
        if known and ctx.cluster.spec.etcd.type == "kubeadm":
            return self._rolled(ctx, (*known, *new), known)
        return self._rolled(ctx, known, known) + (self._on(ctx, new, known) if new else EMPTY)

    def _rolled(self, ctx: TaskContext, hosts: Sequence[Host], known: Sequence[Host]) -> ExecutionFragment:
        return rolling([[host] for host in hosts], lambda batch: self._on(ctx, batch.hosts, known, batch))

    def _on(
        self, ctx: TaskContext, hosts: Sequence[Host], known: Sequence[Host], batch: Batch | None = None
    ) -> ExecutionFragment:
        g, cluster = FragmentBuilder("kubeadm.run", batch), ctx.cluster
        stacked = cluster.spec.etcd.type == "kubeadm"
        before = self._etcd(g, ctx, hosts, known) if stacked else []
        # A member that joins or comes back must vote before its API server starts, which only hangs without it.
        if stacked and known:
            before = [self._votes(g, ctx, hosts, known, after=self._kubelet(g, ctx, hosts, after=before))]
        needs = (PREPARED, IMAGES_PRESENT, *(() if stacked else (ETCD_QUORUM,)))
        everything = (API_SERVER, *_CONTROLLERS)
        # Where clients depend on it, the API server is replaced and proven before its controllers are.
        first = everything if batch is None else (API_SERVER,)
        written = _written(cluster, *first)
        manifests = g.add("manifests", written, on=hosts, after_same_host=before, needs=needs, weight=2.0)
        # Started with its pods in place: the API is up soon after, and the kubelet does not give up on it for seconds.
        started = manifests if stacked and known else self._kubelet(g, ctx, hosts, after=[manifests])
        probes = (*((etcd_probe(cluster),) if stacked else ()), api_probe(cluster))
        serves = StaticPodsServe(probes=probes)
        api = g.add("api", serves, on=hosts, after_same_host=[started], provides=API_SERVING, weight=8.0)
        ready = (
            api
            if batch is None
            else g.add(
                "controller-manifests", _written(cluster, *_CONTROLLERS), on=hosts, after_same_host=[api], weight=2.0
            )
        )
        g.add("controllers", StaticPodsServe(probes=controller_probes(cluster)), on=hosts, after_same_host=[ready])
        g.add("marked", HostMarked(cluster=cluster.name, role="controlPlane"), on=hosts, after_same_host=[api])
        return g.build()

    def _kubelet(
        self, g: FragmentBuilder, ctx: TaskContext, hosts: Sequence[Host], *, after: Sequence[NodeHandle]
    ) -> NodeHandle:
        return g.add(
            "kubelet",
            kubelet_running(ctx.cluster),
            on=hosts,
            after_same_host=after,
            needs=(KUBELET_INSTALLED, RUNTIME_READY, HOST_READY),
            provides=KUBELET_RUNNING,
            weight=3.0,
        )

    def _votes(
        self, g: FragmentBuilder, ctx: TaskContext, hosts: Sequence[Host], known: Sequence[Host], *, after: NodeHandle
    ) -> NodeHandle:
        step = PodMemberVotes(
            data_dir=ctx.cluster.spec.etcd.data_dir,
            port=ctx.cluster.spec.etcd.metrics_port,
            peer_urls=peer_urls(ctx),
            others=tuple(url for _, url in client_urls(ctx, known)),
            image=image(ctx, ETCD),
            runtime=runtime_of(ctx.cluster).name,
        )
        return g.add("votes", step, on=hosts, after_same_host=[after])

    def _etcd(
        self, g: FragmentBuilder, ctx: TaskContext, hosts: Sequence[Host], known: Sequence[Host]
    ) -> list[NodeHandle]:
        """A member of etcd beside the control plane: it must know the others before it starts without data."""
        data = ctx.cluster.spec.etcd.data_dir
        who: Step = PodMembersKnown(data_dir=data, peer_urls=peer_urls(ctx))
        if known:
            others = client_urls(ctx, known)
            who = PodMemberAdmitted(
                data_dir=data,
                peer_urls=peer_urls(ctx),
                others=others,
                image=image(ctx, ETCD),
                runtime=runtime_of(ctx.cluster).name,
            )
        told = g.add("members", who, on=hosts, needs=(PREPARED, IMAGES_PRESENT, RUNTIME_READY))
        pod = _written(ctx.cluster, ETCD, members=MEMBERS)
        written = g.add("etcd", pod, on=hosts, after_same_host=[told])
        begins = PodMemberBegins(path=PurePosixPath(data) / "member")
        return [g.add("etcd-member", begins, on=hosts, after_same_host=[written])]


class OpenCluster(Task):
    """Lets administrators act and nodes join, as soon as one API server is ready."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Rights first: everything else is done with admin.conf, which has none before."""
        g = FragmentBuilder("kubeadm.open")
        opened = open_api(g, ctx)
        settings = yaml_text(cluster_configuration(ctx, api_hosts(ctx)[0]))
        digest = hashlib.sha256(settings.encode()).hexdigest()[:32]
        g.add("settings", SettingsUploaded(digest=digest), after=[opened], **through_api(ctx))
        return g.build()


def _written(cluster: Cluster, *components: str, members: Key[str] | None = None) -> StaticPodsWritten:
    phases = tuple(_PHASES[component] for component in components)
    return StaticPodsWritten(
        phases=("control-plane all",) if components == (API_SERVER, *_CONTROLLERS) else phases,
        pods=pods_of(cluster, *components),
        grace=stop_timeout(cluster),
        members=members,
    )


def _files(ctx: TaskContext, hosts: Sequence[Host]) -> tuple[HostFile, ...]:
    """What kubeadm reads, and what the arguments it sets name."""
    settings = (HostFile(path=file.path, content=file.content, mode=file.mode) for file in settings_files(ctx.cluster))
    configs = {host.name: configuration(ctx, host) for host in hosts}
    return (*per_host_files(CONFIG, configs, 0o600), *patch_files(ctx), *settings)
