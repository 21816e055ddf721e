"""Installing the kubelet, and the nodes of a plan that certify and start it. Not who calls them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.assets import place, stamp_of
from kubexm.components.control_plane.layout import CA_ROOT
from kubexm.components.host_files import FilesPresent, HostFile, per_host_files
from kubexm.components.kubelet.certified import KubeletCertified
from kubexm.components.kubelet.config import (
    node_env,
    node_servers,
    registration,
    settings,
    unit_file,
)
from kubexm.components.kubelet.layout import (
    CONFIG,
    DROP_INS,
    MANIFESTS,
    NODE_ENV,
    REGISTRATION,
    SERVING_CERTIFICATE,
    SERVING_KEY,
    UNIT,
    UNIT_FILE,
)
from kubexm.components.kubelet.running import KubeletRunning
from kubexm.components.milestones import (
    KUBELET_INSTALLED,
    PKI_ISSUED,
)
from kubexm.components.pki import kubelet_files, place_files
from kubexm.components.runtimes import runtime_of
from kubexm.components.topology import nodes
from kubexm.connector import Host
from kubexm.plan import ExecutionFragment
from kubexm.runtime import TaskContext
from kubexm.step import DirectoryPresent
from kubexm.task import FragmentBuilder, NodeHandle, Task

__all__ = ["INPUTS", "InstallKubelet", "certified", "kubelet_running"]

INPUTS: Final = (CONFIG, NODE_ENV, CA_ROOT, SERVING_CERTIFICATE, SERVING_KEY, stamp_of("kubelet"))
"""What the kubelet is started from, besides its unit file; its client certificate is its own affair."""


class InstallKubelet(Task):
    """Puts the kubelet with all it is started from on every node; starts nothing."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Everything beside everything else: only certificates wait, for the PKI."""
        g, hosts, cluster = FragmentBuilder("kubelet.install"), nodes(ctx), ctx.cluster
        parts = [
            place(g, ctx, "kubelet", on=hosts, node="binary"),
            place_files(g, kubelet_files(), on=hosts),
            g.add("settings", FilesPresent(files=_files(ctx, hosts)), on=hosts),
        ]
        manifests = [host for host in hosts if cluster.spec.kubernetes.type == "kubeadm" and _is_control_plane(host)]
        if manifests:
            parts.append(g.add("manifests", DirectoryPresent(path=MANIFESTS, mode=0o700), on=manifests))
        # One node for all of them: a milestone has one provider, and this one is read anyway.
        g.add(
            "drop-ins",
            DirectoryPresent(path=DROP_INS, mode=0o755),
            on=hosts,
            after_same_host=parts,
            provides=KUBELET_INSTALLED,
        )
        return g.build()


def _files(ctx: TaskContext, hosts: Sequence[Host]) -> tuple[HostFile, ...]:
    configs = {host.name: settings(ctx.cluster, host, ctx.facts(host)) for host in hosts}
    return (
        *per_host_files(CONFIG, configs, 0o600),
        *per_host_files(NODE_ENV, {host.name: node_env(ctx, host) for host in hosts}),
        *per_host_files(REGISTRATION, {host.name: registration(host) for host in hosts}, 0o600),
        HostFile(path=UNIT_FILE, content=unit_file(ctx.cluster), mode=0o600),
    )


def kubelet_running(cluster: Cluster) -> KubeletRunning:
    """The kubelet runs from what it was given; restarted only if something of that changed."""
    return KubeletRunning(unit=UNIT, inputs=INPUTS, runtime=runtime_of(cluster).name)


def certified(g: FragmentBuilder, ctx: TaskContext, *, on: Sequence[Host], **more: Any) -> NodeHandle:
    """Adds the node that gives kubelets of control planes their certificate, under the name `kubelet-certified`."""
    step = KubeletCertified(
        server=node_servers(ctx.cluster)[1], duration=int(ctx.cluster.spec.certs.duration.total_seconds())
    )
    return g.add("kubelet-certified", step, on=on, needs=PKI_ISSUED, **more)


def _is_control_plane(host: Host) -> bool:
    return "controlPlane" in host.roles
