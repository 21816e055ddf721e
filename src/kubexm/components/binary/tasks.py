"""The tasks that bring up a control plane under systemd, and open it for nodes."""

from __future__ import annotations

from kubexm.components.api import through_api
from kubexm.components.assets import place
from kubexm.components.binary.steps import ClusterInfoPublished
from kubexm.components.binary.units import (
    API_SERVER,
    CONTROLLER_MANAGER,
    PROGRAMS,
    SCHEDULER,
    control_plane_settings,
    inputs,
)
from kubexm.components.control_plane import health_ports
from kubexm.components.health import ProgramAnswers
from kubexm.components.host_files import FilesPresent
from kubexm.components.identity import HostMarked
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
from kubexm.components.topology import control_planes, endpoint, joined_control_planes, server_url
from kubexm.connector import Host
from kubexm.module import rolling
from kubexm.plan import EMPTY, ExecutionFragment, Retry
from kubexm.runtime import TaskContext
from kubexm.step import ServiceRunning
from kubexm.task import Batch, FragmentBuilder, Task

__all__ = ["OpenCluster", "RunControlPlane"]


class RunControlPlane(Task):
    """Control planes that ran before take over changes one at a time; new ones start all at once."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """The rolling form for those that were brought up before, the bring-up form for all others."""
        known = joined_control_planes(ctx)
        new = tuple(host for host in control_planes(ctx) if host not in known)
        rolled = rolling([[host] for host in known], lambda batch: self._on(ctx, batch.hosts, batch))
        return rolled + (self._on(ctx, new) if new else EMPTY)

    def _on(self, ctx: TaskContext, hosts: tuple[Host, ...], batch: Batch | None = None) -> ExecutionFragment:
        g = FragmentBuilder("binary.run", batch)
        kubectl = place(g, ctx, "kubectl", on=hosts)
        programs = {name: place(g, ctx, name, on=hosts) for name in PROGRAMS}
        pki = place_files(g, control_plane_files(ctx.cluster), on=hosts)
        files = FilesPresent(files=control_plane_settings(ctx, hosts))
        settings = g.add("settings", files, on=hosts, needs=PKI_ISSUED)

        server = g.add(
            "api-server",
            ServiceRunning(unit=API_SERVER, inputs=inputs(ctx, API_SERVER)),
            on=hosts,
            after_same_host=[programs[API_SERVER], pki, settings],
            needs=(HOST_READY, ETCD_QUORUM),
            # Several that find etcd empty at the same moment may all want to be the first to write there: one wins, and
            # the others end and have to be started again.
            retry=Retry(times=2, delay=1.0),
            weight=3.0,
        )
        ready = g.add(
            "api-server-ready",
            ProgramAnswers(
                unit=API_SERVER, path="/readyz", port=ctx.cluster.spec.control_plane_endpoint.port, api=True
            ),
            on=hosts,
            after_same_host=[server, kubectl],
            provides=API_SERVING,
            weight=4.0,
        )
        # Beside the controllers: it has its certificate, and is registered by the time they look for nodes.
        g.add(
            "kubelet",
            kubelet_running(ctx.cluster),
            on=hosts,
            after_same_host=[ready, certified(g, ctx, on=hosts)],
            needs=(KUBELET_INSTALLED, RUNTIME_READY, IMAGES_PRESENT),
            provides=KUBELET_RUNNING,
            weight=3.0,
        )
        for name, short in ((CONTROLLER_MANAGER, "controller-manager"), (SCHEDULER, "scheduler")):
            started = g.add(
                short,
                ServiceRunning(unit=name, inputs=inputs(ctx, name)),
                on=hosts,
                after_same_host=[programs[name], ready],
                weight=2.0,
            )
            g.add(
                f"{short}-healthy",
                ProgramAnswers(unit=name, path="/healthz", port=health_ports(ctx.cluster)[name]),
                on=hosts,
                after_same_host=[started],
            )
        g.add("marked", HostMarked(cluster=ctx.cluster.name, role="controlPlane"), on=hosts, after_same_host=[ready])
        return g.build()


class OpenCluster(Task):
    """Lets administrators act and nodes join, as soon as one API server is ready."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Rights first: everything else is done with admin.conf, which has none before."""
        g = FragmentBuilder("binary.open")
        opened = open_api(g, ctx)
        server = server_url(endpoint(ctx.cluster), ctx.cluster.spec.control_plane_endpoint.port)
        g.add("cluster-info", ClusterInfoPublished(server=server), after=[opened], **through_api(ctx))
        return g.build()
