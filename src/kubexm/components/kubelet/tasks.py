"""Installing the kubelet, and the nodes of a plan that start it and let it join. Not which mode calls them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubexm.components.assets import place, stamp_of
from kubexm.components.host_files import FilesPresent, HostFile, per_host_files
from kubexm.components.kubelet.config import (
    node_env,
    node_servers,
    registration,
    settings,
    unit_file,
)
from kubexm.components.kubelet.joining import KubeletAdmitted, NodeJoined
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
from kubexm.components.milestones import JOINING_OPEN, KUBELET_INSTALLED
from kubexm.components.pki import kubelet_files, place_files
from kubexm.components.topology import nodes
from kubexm.connector import Host
from kubexm.plan import ExecutionFragment, Milestone
from kubexm.runtime import TaskContext
from kubexm.step import DirectoryPresent
from kubexm.task import FragmentBuilder, NodeHandle, Task

__all__ = ["INPUTS", "InstallKubelet", "join_nodes", "kubelet_running"]

INPUTS: Final = (CONFIG, NODE_ENV, SERVING_CERTIFICATE, SERVING_KEY, stamp_of("kubelet"))
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
        HostFile(path=UNIT_FILE, content=unit_file(ctx.cluster)),
    )


def kubelet_running() -> KubeletRunning:
    """The kubelet runs from what it was given; restarted only if something of that changed."""
    return KubeletRunning(unit=UNIT, inputs=INPUTS)


def join_nodes(
    g: FragmentBuilder,
    ctx: TaskContext,
    *,
    on: Sequence[Host],
    token: NodeHandle,
    after: NodeHandle,
    needs: Sequence[Milestone],
    provides: Milestone | Sequence[Milestone] = (),
) -> NodeHandle:
    """Adds `admitted`, `kubelet` and `joined` for hosts whose kubelet asks the API for its certificate.

    `token` is the handle of `join_token`; `after` and `needs` are what must be there before the kubelet starts.
    """
    server, own = node_servers(ctx.cluster)
    admitted = g.add(
        "admitted",
        KubeletAdmitted(server=server, own_server=own),
        on=on,
        after=[token],
        needs=(KUBELET_INSTALLED, JOINING_OPEN),
    )
    started = g.add(
        "kubelet", kubelet_running(), on=on, after=[after], after_same_host=[admitted], needs=needs, weight=2.0
    )
    joined = NodeJoined(server=server, own_server=own)
    return g.add("joined", joined, on=on, after_same_host=[started], provides=provides, weight=3.0)


def _is_control_plane(host: Host) -> bool:
    return "controlPlane" in host.roles
