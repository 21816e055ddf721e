"""The tasks that run kube-proxy: one object for all nodes, or a unit on each."""

from __future__ import annotations

from kubexm.components.api import ManifestsApplied, through_api
from kubexm.components.assets import image, place, stamp_of
from kubexm.components.documents import yaml_text
from kubexm.components.health import PortListened
from kubexm.components.host_files import FilesPresent, HostFile, per_host_files
from kubexm.components.kube_proxy.config import (
    CONFIG,
    KUBECONFIG,
    UNIT,
    health_port,
    manifests,
    settings,
    unit_file,
)
from kubexm.components.milestones import API_READY, HOST_READY, NODE_JOINED, PKI_ISSUED
from kubexm.components.topology import nodes
from kubexm.components.units import unit_path
from kubexm.plan import ExecutionFragment
from kubexm.redact import SecretRef
from kubexm.runtime import TaskContext
from kubexm.step import ServiceRunning
from kubexm.task import FragmentBuilder, Task

__all__ = ["ApplyKubeProxy", "RunKubeProxy"]


class ApplyKubeProxy(Task):
    """Applies the pods of kube-proxy the moment the API answers."""

    def is_required(self, ctx: TaskContext) -> bool:
        """Where the control plane runs in pods, so does this."""
        return ctx.cluster.spec.kubernetes.type == "kubeadm"

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """One set of objects; all pods share their settings, so one node that cannot tune decides for all."""
        g = FragmentBuilder("kube-proxy.apply")
        tunes = all(ctx.facts(host).kernel.conntrack_writable for host in nodes(ctx))
        text = manifests(ctx.cluster, image(ctx, "kube-proxy"), tunes_conntrack=tunes)
        step = ManifestsApplied(name="kube-proxy", manifests=text, namespace="kube-system")
        g.add("manifests", step, needs=API_READY, **through_api(ctx))
        return g.build()


class RunKubeProxy(Task):
    """Runs kube-proxy under systemd on every node."""

    def is_required(self, ctx: TaskContext) -> bool:
        """Where the control plane runs under systemd, so does this."""
        return ctx.cluster.spec.kubernetes.type == "kubexm"

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Started once its node is known to the API: before that it would wait, or guess its address."""
        hosts, g = nodes(ctx), FragmentBuilder("kube-proxy.run")
        program = place(g, ctx, "kube-proxy", on=hosts)
        tunes = {host.name: ctx.facts(host).kernel.conntrack_writable for host in hosts}
        told = {tunes: yaml_text(settings(ctx.cluster, tunes_conntrack=tunes)) for tunes in (True, False)}
        files = (
            *per_host_files(CONFIG, {name: told[writable] for name, writable in tunes.items()}),
            *per_host_files(unit_path(UNIT), {host.name: unit_file(ctx.cluster, host.name) for host in hosts}),
            HostFile(path=KUBECONFIG, content=SecretRef("kubeconfig.kube-proxy"), mode=0o600),
        )
        written = g.add("settings", FilesPresent(files=files), on=hosts, needs=PKI_ISSUED)
        started = g.add(
            "start",
            ServiceRunning(unit=UNIT, inputs=(CONFIG, KUBECONFIG, stamp_of("kube-proxy"))),
            on=hosts,
            after_same_host=[program, written],
            needs=(HOST_READY, NODE_JOINED),
        )
        port = health_port(ctx.cluster)
        if port:
            g.add("healthy", PortListened(unit=UNIT, port=port), on=hosts, after_same_host=[started])
        return g.build()
