"""Where a cluster is measured from, and what is measured there: from its file and its hosts' facts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kubexm.components.assets import image
from kubexm.components.pki.files import KUBERNETES_PKI
from kubexm.components.probes.session import Site
from kubexm.components.topology import (
    LOCALHOST,
    balanced,
    etcd_members,
    internal_address,
    joined_control_planes,
    marker_of,
    nodes,
    plain_nodes,
    server_url,
)
from kubexm.connector import Host
from kubexm.errors import KubexmError
from kubexm.runtime import Context, HostRuntime, TaskContext

__all__ = ["control_planes_at_hand", "is_running", "site_of"]


def is_running(ctx: Context) -> bool:
    """True if there is a cluster to measure: one of its control planes was brought up before, and is reached."""
    return bool(control_planes_at_hand(ctx))


def control_planes_at_hand(ctx: Context) -> list[HostRuntime]:
    """The control planes that were brought up before and are reached."""
    return [ctx.host_runtimes[host.name] for host in joined_control_planes(_view(ctx)) if _at_hand(ctx, host)]


async def site_of(ctx: Context, program: Callable[[str], Path]) -> Site:
    """What a measurement must know. KubexmError if there is nobody to ask."""
    view, spec = _view(ctx), ctx.cluster.spec
    serving = control_planes_at_hand(ctx)
    if not serving:
        raise KubexmError(
            f"there is no control plane of {ctx.cluster.name} to measure", hint="`kubexm create cluster` makes one"
        )
    ca = await serving[0].files.text(KUBERNETES_PKI / "ca.crt")
    if not ca:
        raise KubexmError(f"{serving[0].name}: {KUBERNETES_PKI / 'ca.crt'} is missing", hint="run `kubexm verify`")
    joined = [host for host in nodes(view) if _at_hand(ctx, host) and _is_member(view, host)]
    workers = [host for host in plain_nodes(view) if host in joined]
    prober = workers[0] if workers else next(host for host in view.hosts() if host.name == serving[0].name)
    services = spec.network.service_cidr[0]
    return Site(
        prober=ctx.host_runtimes[prober.name],
        targets=_targets(view, prober),
        nodes={host.name: ctx.host_runtimes[host.name] for host in joined},
        members={host.name: ctx.host_runtimes[host.name] for host in etcd_members(view) if _at_hand(ctx, host)},
        ca=ca,
        image=image(view, "agnhost"),
        dns=str(services[10]),
        dns_name=f"kubernetes.default.svc.{spec.kubernetes.dns_domain}",
        metrics_port=spec.etcd.metrics_port,
        taints=tuple(dict.fromkeys(taint for host in nodes(view) for taint in host.taints)),
        anywhere=not workers,
        program=program,
    )


def _targets(view: TaskContext, prober: Host) -> dict[str, str]:
    """The ways to the API from this host: its own balancer, and the endpoint as users outside have it."""
    wanted = view.cluster.spec.control_plane_endpoint
    entrances = view.hosts("loadbalancer") if wanted.load_balancer == "haproxy" else ()
    serving = entrances or joined_control_planes(view)
    outside = wanted.address or internal_address(view, serving[0])
    found = {"balancer": server_url(LOCALHOST, wanted.port)} if prober in balanced(view) else {}
    return {**found, "endpoint": server_url(outside, wanted.port)}


def _is_member(view: TaskContext, host: Host) -> bool:
    marker = marker_of(view, host)
    return marker is not None and bool({"controlPlane", "worker"} & set(marker.roles))


def _at_hand(ctx: Context, host: Host) -> bool:
    return host.name in ctx.host_runtimes


def _view(ctx: Context) -> TaskContext:
    return ctx.pipeline_context().for_module().for_task()
